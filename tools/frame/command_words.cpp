#include "tools/frame/command_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "lockstep/base/text/flag_name.h"
#include "lockstep/base/text/flag_synonyms.h"
#include "lockstep/base/text/nearest_name.h"
#include "tools/frame/command_line.h"

namespace lockstep {
namespace {

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* nested : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(nested->get_name());
  }
  return names;
}

// The subcommand of `app` that `word` names; null if it names none.
template <typename Command>  // const or not
Command* nested_named(Command* app, const std::string& word) {
  const auto nested = app->get_subcommands([&](const CLI::App* each) { return each->check_name(word); });
  return nested.empty() ? nullptr : nested.front();
}

// The flag of a word "--some_flag=value", as CLI11 knows it: "--some-flag".
std::string flag_name(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name.rfind("--", 0) == 0 ? with_hyphens(name) : name;
}

// The first word that no command takes, with a suggestion; empty if there is none.
std::string unknown_word(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* app = &root;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument[0] != '-') {
      if (app->get_prefix_command()) break;
      const CLI::App* nested = nested_named(app, argument);
      if (nested == nullptr && app->get_require_subcommand_min() > 0) {
        return fmt::format("unknown argument '{}'{}", argument, did_you_mean(argument, long_names(*app)));
      }
      if (nested != nullptr) app = nested;
      continue;
    }
    const std::string name = flag_name(argument);
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr && name.rfind("--", 0) == 0) {
      return fmt::format("unknown flag '{}'{}", name, suggest_flag(name, long_names(*app)));
    }
    if (option != nullptr && option->get_expected_min() > 0 && argument.find('=') == std::string::npos) ++i;
  }
  return "";
}

// What the innermost subcommand that was named requires and has not got. CLI11 names the first of them alone.
std::vector<std::string> missing_options(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::vector<std::string> missing;
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    missing.push_back(option->get_lnames().empty() ? option->get_name(true) : "--" + option->get_lnames().front());
  }
  return missing;
}

// Versions of CLI11 say some things differently, and some of them in a form for programmers.
std::string in_our_words(const std::string& text) {
  const auto after = [&text](const std::string& words) {
    const std::size_t at = text.find(words);
    return at == std::string::npos ? at : at + words.size();
  };
  const std::string range = " not in range ";
  const std::size_t limits = after(range);
  if (limits != std::string::npos) {
    // 2.1 prints the largest double with all 309 digits.
    const bool is_endless = after(range + "0.000000 to 1797") != std::string::npos || text.find("e+308]") != text.npos;
    if (is_endless) return text.substr(0, limits - range.size()) + " is too small";
    const std::size_t dash = text.find(" - ", limits);  // since 2.4: [1 - 64]
    if (text[limits] != '[' || dash == std::string::npos) return text;
    const std::size_t end = text.find(']', dash);
    return text.substr(0, limits) + text.substr(limits + 1, dash - limits - 1) + " to " +
           text.substr(dash + 3, end - dash - 3);
  }
  const std::size_t flag = after("Could not convert: ");  // since 2.4, for numbers that do not fit
  const std::size_t equals = text.find(" = ");
  if (flag == std::string::npos || equals == std::string::npos) return text;
  const std::string number = text.substr(equals + 3);
  if (number.empty() || number.find_first_not_of("-0123456789") != std::string::npos) return text;
  return text.substr(flag, equals - flag) + ": the number " + number + " is out of range";
}

}  // namespace

std::vector<std::string> normalize(CLI::App& root, std::vector<std::string> arguments) {
  CLI::App* app = &root;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") break;
    if (argument.size() < 2 || argument[0] != '-') {
      if (app->get_prefix_command()) break;
      if (CLI::App* nested = nested_named(app, argument)) app = nested;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = flag_name(argument);
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr && name[1] != '-') option = app->get_option_no_throw(name.substr(0, 2));
    if (option == nullptr) {
      if (app->get_prefix_command()) throw CLI::ExtrasError({argument});
      continue;
    }
    if (name[1] == '-') argument = name + (equals == std::string::npos ? "" : argument.substr(equals));
    const bool value_attached = equals != std::string::npos || (name[1] != '-' && name.size() > 2);
    if (option->get_expected_min() > 0 && option->get_type_size_min() > 0 && !value_attached) ++i;
  }
  return arguments;
}

void refuse_too_large(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.find("INT") == std::string::npos) continue;
    for (const std::string& text : option->results()) {
      errno = 0;
      if (type.rfind("UINT", 0) == 0) {
        std::strtoull(text.c_str(), nullptr, 0);
      } else {
        std::strtoll(text.c_str(), nullptr, 0);
      }
      if (errno == ERANGE) throw CLI::ValidationError(option->get_name(), "the number " + text + " is out of range");
    }
  }
  for (const CLI::App* nested : app.get_subcommands()) refuse_too_large(*nested);
}

std::string explain_words(const CLI::ParseError& error, const CLI::App& app,
                          const std::vector<std::string>& arguments) {
  const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  if (extras == nullptr) {
    // A missing word may have been misspelt.
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const std::string unknown = is_missing ? unknown_word(app, arguments) : "";
    if (!unknown.empty()) return unknown;
    const std::vector<std::string> missing = is_missing ? missing_options(app) : std::vector<std::string>{};
    if (missing.size() > 1) return fmt::format("{} are required", fmt::join(missing, ", "));
    return in_our_words(error.what());
  }
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().front();
  const std::vector<std::string> known = long_names(*innermost);
  // The words that CLI11 lists as left over. Flags first, because other words may be their values.
  const std::string text = error.what();
  const std::string words = text.substr(std::min(text.find(':'), text.size() - 1) + 1) + " ";
  for (const bool is_flag : {true, false}) {
    for (const std::string& argument : arguments) {
      const std::string name = flag_name(argument);
      if (name.empty() || (name[0] == '-') != is_flag || words.find(" " + argument + " ") == std::string::npos)
        continue;
      if (is_flag && innermost->get_option_no_throw(name) != nullptr) continue;
      return fmt::format("unknown {} '{}'{}", is_flag ? "flag" : "argument", argument,
                         is_flag ? suggest_flag(name, known) : did_you_mean(name, known));
    }
  }
  return text;
}

std::string nested_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each = &app; !each->get_subcommands().empty();) {
    each = each->get_subcommands().front();
    names += " " + each->get_name();
  }
  return names;
}

}  // namespace lockstep
