#include "lockstep/train/training_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "lockstep/base/text/flag_name.h"
#include "lockstep/train/arguments/training_argument_table.h"

namespace lockstep {
namespace {

std::string flag_names(const TrainingArgumentInfo& info) {
  std::string names;
  std::vector<std::string> all{info.name};
  all.insert(all.end(), info.aliases.begin(), info.aliases.end());
  for (const std::string& name : all) {
    const std::string flag = "--" + with_hyphens(name);
    names += (names.empty() ? "" : ",") + flag;
    if (flag != "--" + name) names += ",--" + name;
  }
  return names;
}

}  // namespace

void TrainingFlags::add(CLI::App& app, const std::vector<std::string>& names) {
  app.add_option("--config", config_, "JSON or YAML file with training arguments; flags override it")
      ->group("Training");
  for (const TrainingArgumentInfo& info : training_argument_infos()) {
    if (!names.empty() && std::find(names.begin(), names.end(), info.name) == names.end()) continue;
    CLI::Option* option = app.add_option(
        flag_names(info),
        [this, name = info.name, is_switch = info.is_switch](const std::vector<std::string>& results) {
          std::string text;
          for (const std::string& result : results) text = result;
          given_.emplace_back(name, is_switch && (text.empty() || text == "{}") ? "true" : text);
          return true;
        },
        // CLI11 would use the default as the value of a flag without a value.
        info.help + (info.is_switch && !info.default_value.empty() ? " [" + info.default_value + "]" : ""));
    option->type_name(info.value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group("Training");
    if (info.is_switch) {
      option->expected(0, 1);
    } else {
      option->expected(1);
    }
    if (!info.is_switch && !info.default_value.empty()) option->default_str(info.default_value);
  }
  // Hugging Face's other arguments: refused with the reason, and not listed.
  for (const std::string& name : unsupported_training_arguments()) {
    TrainingArgumentInfo info;
    info.name = name;
    app.add_option(flag_names(info),
                   [this, name](const std::vector<std::string>&) {
                     given_.emplace_back(name, "true");
                     return true;
                   })
        ->expected(0, 1)
        ->group("");
  }
}

TrainingArguments TrainingFlags::arguments(TrainingArguments defaults) const {
  if (!config_.empty()) read_training_arguments(defaults, config_);
  for (const auto& [name, text] : given_) set_training_argument(defaults, name, text, "command line, --" + name);
  check_training_arguments(defaults, "command line");
  return defaults;
}

bool TrainingFlags::given(const std::string& name) const {
  return std::any_of(given_.begin(), given_.end(), [&](const auto& flag) { return flag.first == name; });
}

}  // namespace lockstep
