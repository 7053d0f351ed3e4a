#include "lockstep/data/texts/label_columns.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

std::optional<bool> as_flag(std::string_view value) {
  for (const std::string_view yes : {"1", "1.0", "true", "True"}) {
    if (value == yes) return true;
  }
  for (const std::string_view no : {"0", "0.0", "false", "False"}) {
    if (value == no) return false;
  }
  return std::nullopt;
}

}  // namespace

LabelColumns::LabelColumns(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    quoted_.push_back(nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
}

void LabelColumns::add(std::size_t column, std::string_view value, const TextRowChecks::Where& where) {
  const std::optional<bool> is_set = as_flag(value);
  if (!is_set) {
    throw Error(fmt::format("the label {} is \"{}\", not 0 or 1", quoted_[column], printable(std::string(value))),
                where(),
                "give 0 or 1 in each column of a label that a row may have beside others; a single column of names or "
                "numbers is named alone");
  }
  if (!*is_set) return;
  if (!list_.empty()) list_ += ',';
  list_ += quoted_[column];
}

const std::string& LabelColumns::take() {
  taken_ = '[' + list_ + ']';
  list_.clear();
  return taken_;
}

}  // namespace lockstep
