#include "tools/lockstep/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>

#include "lockstep/base/environment.h"
#include "lockstep/base/environment_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/nearest_name.h"
#include "lockstep/base/printable.h"
#include "tools/lockstep/companion.h"

namespace lockstep {
namespace {

constexpr int kFailed = 1;
constexpr int kNotUnderstood = 2;
constexpr const char* kEnvironment = "env";  // shows what the others refuse

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names) {
  const std::string near = nearest_name(typed, names);
  return near.empty() ? "" : fmt::format(" Did you mean '{}'?", near);
}

void print_overview(const std::vector<SubcommandEntry>& entries) {
  fmt::print("Data-parallel training for C++ on LibTorch.\n\nUsage: lockstep SUBCOMMAND [flags]\n\nSubcommands:\n");
  std::size_t width = 0;
  for (const SubcommandEntry& entry : entries) width = std::max(width, entry.name.size());
  for (const SubcommandEntry& entry : entries) fmt::print("  {:{}}  {}\n", entry.name, width, entry.summary);
  fmt::print("\nExamples:\n");
  for (const SubcommandEntry& entry : entries) fmt::print("  {}\n", entry.example);
  fmt::print("\n'lockstep SUBCOMMAND --help' lists the flags of one; 'lockstep --version' prints the version.\n");
}

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

// Rewrites `--some_flag` to `--some-flag` where the latter exists, up to the program that `run` starts: what follows it
// belongs to the program. Throws for a flag before the program that does not exist.
std::vector<std::string> normalize(CLI::App& root, std::vector<std::string> arguments) {
  CLI::App* app = &root;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (argument == "--") break;
    if (argument.size() < 2 || argument[0] != '-') {
      if (app->get_prefix_command()) break;
      const auto nested = app->get_subcommands([&](CLI::App* candidate) { return candidate->check_name(argument); });
      if (!nested.empty()) app = nested.front();
      continue;
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    if (name.rfind("--", 0) == 0) name = with_hyphens(name);
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

// CLI11 takes the nearest number that fits for one that does not.
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

// The first word of the command line that nothing takes, with what was probably meant; empty if there is none.
std::string unknown_word(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* app = &root;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument[0] != '-') {
      if (app->get_prefix_command()) break;
      const auto nested = app->get_subcommands([&](const CLI::App* each) { return each->check_name(argument); });
      if (nested.empty() && app->get_require_subcommand_min() > 0) {
        return fmt::format("unknown argument '{}'.{}", argument, did_you_mean(argument, long_names(*app)));
      }
      if (!nested.empty()) app = nested.front();
      continue;
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    if (name.rfind("--", 0) == 0) name = with_hyphens(name);
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr && name.rfind("--", 0) == 0) {
      return fmt::format("unknown flag '{}'.{}", name, did_you_mean(name, long_names(*app)));
    }
    if (option != nullptr && option->get_expected_min() > 0 && equals == std::string::npos) ++i;
  }
  return "";
}

std::string explain(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  if (extras == nullptr) {
    // What is missing was perhaps misspelt.
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const std::string unknown = is_missing ? unknown_word(app, arguments) : "";
    if (!unknown.empty()) return unknown;
    const std::string text = error.what();
    // CLI11 writes the largest double in full, 309 digits.
    const std::size_t endless = text.find(" not in range 0.000000 to 1797");
    return endless == std::string::npos ? text : text.substr(0, endless) + " is too small";
  }
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().front();
  const std::vector<std::string> known = long_names(*innermost);
  // What CLI11 lists as left over, word by word. Flags first: other words may be their values.
  const std::string text = error.what();
  const std::string words = text.substr(std::min(text.find(':'), text.size() - 1) + 1) + " ";
  for (const bool is_flag : {true, false}) {
    for (const std::string& argument : arguments) {
      std::string name = argument.substr(0, argument.find('='));
      if (name.empty() || (name[0] == '-') != is_flag || words.find(" " + argument + " ") == std::string::npos)
        continue;
      if (name.rfind("--", 0) == 0) name = with_hyphens(name);
      if (is_flag && innermost->get_option_no_throw(name) != nullptr) continue;
      return fmt::format("unknown {} '{}'.{}", is_flag ? "flag" : "argument", argument, did_you_mean(name, known));
    }
  }
  return text;
}

// Of `lockstep bench step`: " step".
std::string nested_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each = &app; !each->get_subcommands().empty();) {
    each = each->get_subcommands().front();
    names += " " + each->get_name();
  }
  return names;
}

void print_failure(const std::string& name, const std::string& text) {
  const auto rank = env_string("RANK");
  std::cout.flush();
  fmt::print(stderr, "{}lockstep {}: error: {}\n", rank ? "[rank " + *rank + "] " : "", name, printable_lines(text));
}

// A full disk shows when the last bytes are written, not before.
void require_written() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  throw Error("cannot write the output: " + errno_text(errno), "standard output", "give it a place with room");
}

// The launcher of a rank reads its error file.
int run_as_rank(Subcommand& subcommand) {
  try {
    return subcommand.run();
  } catch (const std::exception& error) {
    record_failure(error);
    throw;
  }
}

int run_subcommand(const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                   std::string (*describe)(const std::exception&)) {
  try {
    const std::unique_ptr<Subcommand> subcommand = entry.make();
    CLI::App app(entry.summary, "lockstep " + entry.name);
    subcommand->add(app);
    try {
      std::vector<std::string> reversed = normalize(app, arguments);
      std::reverse(reversed.begin(), reversed.end());  // the order in which CLI11 takes them
      app.parse(std::move(reversed));
      refuse_too_large(app);
    } catch (const CLI::Success& asked_for_help) {
      return app.exit(asked_for_help);
    } catch (const CLI::ParseError& error) {
      const std::string name = entry.name + nested_names(app);
      print_failure(name, explain(error, app, arguments));
      fmt::print(stderr, "  fix: 'lockstep {} --help' lists what it takes\n", name);
      return kNotUnderstood;
    }
    if (entry.name != kEnvironment) require_readable_environment();
    const int code = run_as_rank(*subcommand);
    require_written();
    return code;
  } catch (const UsageError& error) {
    print_failure(entry.name, error.what());
    return kNotUnderstood;
  } catch (const Error& error) {
    print_failure(entry.name, error.what());
  } catch (const std::bad_alloc&) {
    print_failure(entry.name, "not enough memory for what was asked\n  fix: ask for less at once");
  } catch (const std::length_error&) {
    print_failure(entry.name, "more was asked for than any memory holds\n  fix: ask for less at once");
  } catch (const std::exception& error) {
    print_failure(entry.name, describe(error));
  }
  return kFailed;
}

// The companion lies beside this program, whatever way this program was found.
[[noreturn]] void become(const std::string& companion, std::vector<std::string> arguments) {
  const std::string path = companion_program(companion);
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  throw Error("cannot start " + path + ": " + errno_text(errno), "lockstep",
              "build the target " + companion + " again");
}

int report_unknown(const std::string& typed, const std::vector<SubcommandEntry>& entries) {
  std::vector<std::string> names{"--help", "--version"};
  for (const SubcommandEntry& entry : entries) names.push_back(entry.name);
  fmt::print(stderr, "lockstep: error: unknown {} '{}'.{}\n  fix: 'lockstep --help' lists the subcommands\n",
             typed[0] == '-' ? "flag" : "subcommand", typed, did_you_mean(typed, names));
  return kNotUnderstood;
}

}  // namespace

void show_examples(CLI::App& app, const std::vector<std::string>& command_lines) {
  std::string footer = "Examples:";
  for (const std::string& line : command_lines) footer += "\n  " + line;
  app.footer(footer);
}

std::string with_hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

int run_command_line(const std::vector<SubcommandEntry>& entries, const std::string& companion, int argc, char** argv,
                     std::string (*describe)(const std::exception&)) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.size() > 1 && arguments[0] == "help") arguments = {arguments[1], "--help"};
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_overview(entries);
    return arguments.empty() ? kNotUnderstood : 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("lockstep {}\n", LOCKSTEP_VERSION);
    return 0;
  }
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const SubcommandEntry& candidate) { return candidate.name == arguments[0]; });
  if (entry == entries.end()) return report_unknown(arguments[0], entries);
  if (entry->make != nullptr) return run_subcommand(*entry, {arguments.begin() + 1, arguments.end()}, describe);
  try {
    become(companion, arguments);
  } catch (const std::exception& error) {
    print_failure(entry->name, error.what());
    return kFailed;
  }
}

}  // namespace lockstep
