#include "lockstep/train/arguments/unknown_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/flag_name.h"
#include "lockstep/base/text/flag_synonyms.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/train/arguments/training_argument_table.h"

namespace lockstep {
namespace {

// Why `name` is not an argument, to follow the name and a colon.
std::string refusal_reason(const std::string& name) {
  const std::string reason = unsupported_training_argument(name);
  if (!reason.empty()) return "Hugging Face's Trainer has it, but this one does not: " + reason;
  const std::string flag = script_flag(name);
  if (!flag.empty()) return "it is a flag of lockstep train, " + flag;
  return "there is no argument of that name" + suggested_argument(name);
}

}  // namespace

std::string suggested_argument(const std::string& name) {
  std::vector<std::string> names, flags;
  for (const TrainingArgumentRow& row : training_argument_table()) {
    names.push_back(row.name);
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  }
  for (const std::string& each : names) flags.push_back("--" + with_hyphens(each));
  const std::string synonym = flag_synonym("--" + with_hyphens(name), flags);
  return synonym.empty() ? did_you_mean(name, names) : "; did you mean '" + with_underscores(synonym.substr(2)) + "'?";
}

void refuse_unknown_arguments(const nlohmann::json& document, const std::string& path) {
  std::vector<std::string> lines;
  for (const auto& item : document.items()) {
    const std::string name = with_underscores(item.key());
    if (find_training_argument(name) == nullptr) {
      lines.push_back(fmt::format("\n- {}: {}", printable(name), refusal_reason(name)));
    }
  }
  if (lines.size() < 2) return;
  throw UsageError(
      fmt::format("{} names in the file are not training arguments:{}", lines.size(), fmt::join(lines, "")), path,
      "leave them out, and give flags on the command line; lockstep train --help lists both");
}

}  // namespace lockstep
