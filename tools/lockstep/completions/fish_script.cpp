#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kBeginOfFish = R"(# fish completion for lockstep, written by `lockstep completions fish`
function __lockstep_command
    set -l command
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        switch "$command $word"
            case )";

constexpr const char* kAfterPathsOfFish = R"(
                set command (string trim -- "$command $word")
            case '*'
                break
        end
    end
    test "$command" = "$argv[1]"
end
)";

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string names_of_flag(const OptionFacts& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const bool is_long = name.rfind("--", 0) == 0;
    text += is_long ? " -l " + name.substr(2) : (name.size() == 2 ? " -s " : " -o ") + name.substr(1);
  }
  return text;
}

}  // namespace

std::string fish_completions(const std::vector<CommandFacts>& commands) {
  std::string script = kBeginOfFish + case_of_paths(commands, " ") + kAfterPathsOfFish;
  const auto line = [&](const std::string& path, const std::string& what) {
    script += "complete -c lockstep -n " + in_quotes("__lockstep_command " + in_quotes(path)) + what + "\n";
  };
  line("", " -f");
  line("", " -l help -d 'list the subcommands'");
  line("", " -l version -d 'print the version'");
  for (const CommandFacts& command : commands) {
    if (is_outermost(command)) line("", fmt::format(" -a {} -d {}", command.path, in_quotes(command.summary)));
    if (!command.inner.empty()) {
      line(command.path, fmt::format(" -f -a {}", in_quotes(fmt::format("{}", fmt::join(command.inner, " ")))));
    }
    for (const OptionFacts& option : command.options) {
      const std::string choices = in_quotes(fmt::format("{}", fmt::join(option.choices, " ")));
      if (option.is_positional) {
        if (!option.choices.empty()) line(command.path, " -f -a " + choices);
        continue;
      }
      const std::string value = option.value.empty() ? "" : option.choices.empty() ? " -r" : " -x -a " + choices;
      line(command.path, names_of_flag(option) + value + " -d " + in_quotes(short_help(option)));
    }
  }
  return script;
}

}  // namespace lockstep
