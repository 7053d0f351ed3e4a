#include "lockstep/data/texts/class_column.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep {

ClassColumn::ClassColumn(std::vector<std::string> names, TextFileOptions& options)
    : names_(std::move(names)), column_(options.label) {
  if (options.labels.empty()) {
    for (std::size_t i = 0; i < names_.size(); ++i) options.labels.emplace(names_[i], static_cast<std::int64_t>(i));
    return;
  }
  const auto is_listed = [&](const std::string& name) { return options.labels.count(name) != 0; };
  by_name_ = std::any_of(names_.begin(), names_.end(), is_listed);
}

std::optional<std::string_view> ClassColumn::label(std::string_view number, const TextRowChecks::Where& where) const {
  std::int64_t place = 0;
  std::from_chars(number.data(), number.data() + number.size(), place);
  if (place == -1) return std::nullopt;
  if (place < 0 || place >= static_cast<std::int64_t>(names_.size())) {
    throw Error(fmt::format("the label \"{}\" is {}, and the file names the classes 0 to {}", column_, number,
                            names_.size() - 1),
                where(), "write the file again, with a ClassLabel that has all classes");
  }
  return by_name_ ? names_[static_cast<std::size_t>(place)] : number;
}

}  // namespace lockstep
