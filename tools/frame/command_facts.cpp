#include "tools/frame/command_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text/flag_name.h"

namespace lockstep {
namespace {

std::vector<std::string> parted(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// CLI11 shows a check in the name of the type: "TEXT:{macro,micro}"; training arguments are "steps|epoch".
std::vector<std::string> choices_in(const std::string& type) {
  if (type == "BOOLEAN") return {"true", "false"};
  const std::size_t begin = type.find('{'), end = type.find('}', begin);
  if (end != std::string::npos) return parted(type.substr(begin + 1, end - begin - 1), ',');
  return type.find('|') == std::string::npos ? std::vector<std::string>{} : parted(type, '|');
}

std::string value_of(const CLI::Option& option, const std::vector<std::string>& choices) {
  if (option.get_expected_max() == 0 || option.get_type_size_max() == 0) return "";
  if (!choices.empty()) return "VALUE";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':')).empty() ? "VALUE" : type.substr(0, type.find(':'));
}

// "--output_dir" is understood as "--output-dir", and not shown beside it.
std::vector<std::string> names_of_option(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) {
    if (with_hyphens(name) == name) names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

CommandFacts facts_of_app(const CLI::App& app, const std::string& path) {
  CommandFacts facts;
  facts.path = path;
  facts.summary = app.get_description();
  facts.starts_program = app.get_prefix_command();
  facts.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    OptionFacts each;
    each.names = names_of_option(*option);
    if (each.names.empty()) continue;
    each.choices = choices_in(option->get_type_name());
    each.value = value_of(*option, each.choices);
    each.usual = option->get_default_str();
    each.help = option->get_description();
    each.is_positional = option->get_positional();
    each.is_required = option->get_required();
    facts.options.push_back(std::move(each));
  }
  return facts;
}

void add_facts(const CLI::App& app, const std::string& path, std::vector<CommandFacts>& all) {
  CommandFacts facts = facts_of_app(app, path);
  const auto inner = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : inner) facts.inner.push_back(each->get_name());
  all.push_back(std::move(facts));
  for (const CLI::App* each : inner) add_facts(*each, path + " " + each->get_name(), all);
}

nlohmann::json json_of_option(const OptionFacts& option) {
  return {{"names", option.names},         {"value", option.value}, {"choices", option.choices},
          {"usual", option.usual},         {"help", option.help},   {"positional", option.is_positional},
          {"required", option.is_required}};
}

OptionFacts option_in(const nlohmann::json& json) {
  OptionFacts option;
  json.at("names").get_to(option.names);
  json.at("value").get_to(option.value);
  json.at("choices").get_to(option.choices);
  json.at("usual").get_to(option.usual);
  json.at("help").get_to(option.help);
  json.at("positional").get_to(option.is_positional);
  json.at("required").get_to(option.is_required);
  return option;
}

CommandFacts command_in(const nlohmann::json& json) {
  CommandFacts command;
  json.at("path").get_to(command.path);
  json.at("summary").get_to(command.summary);
  json.at("inner").get_to(command.inner);
  json.at("starts_program").get_to(command.starts_program);
  json.at("footer").get_to(command.footer);
  for (const nlohmann::json& option : json.at("options")) command.options.push_back(option_in(option));
  return command;
}

}  // namespace

std::vector<CommandFacts> facts_of(const std::vector<SubcommandEntry>& entries) {
  std::vector<CommandFacts> all;
  for (const SubcommandEntry& entry : entries) {
    if (entry.make == nullptr) continue;
    CLI::App app(entry.summary);
    const std::unique_ptr<Subcommand> subcommand = entry.make();
    subcommand->add(app);
    add_facts(app, entry.name, all);
  }
  return all;
}

std::string text_of_facts(const std::vector<CommandFacts>& commands) {
  nlohmann::json all = nlohmann::json::array();
  for (const CommandFacts& command : commands) {
    nlohmann::json options = nlohmann::json::array();
    for (const OptionFacts& option : command.options) options.push_back(json_of_option(option));
    all.push_back({{"path", command.path},
                   {"summary", command.summary},
                   {"options", options},
                   {"inner", command.inner},
                   {"starts_program", command.starts_program},
                   {"footer", command.footer}});
  }
  return all.dump() + "\n";
}

std::vector<CommandFacts> facts_in(const std::string& text) {
  std::vector<CommandFacts> commands;
  try {
    for (const nlohmann::json& each : nlohmann::json::parse(text)) commands.push_back(command_in(each));
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a program of Lockstep describes its commands in an unknown form: ") + error.what(),
                "lockstep completions", "install all programs from one version");
  }
  return commands;
}

}  // namespace lockstep
