#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kBeginOfZsh = R"(#compdef lockstep
# zsh completion for lockstep, written by `lockstep completions zsh`
_lockstep() {
  local command= word
  local -i i
  local -a commands
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    case "$command $word" in
)";

constexpr const char* kAfterPathsOfZsh = R"() command=${command:+$command }$word ;;
      (*) break ;;
    esac
  done
  # $words[i] is the first word behind the names of subcommands
  words=(lockstep "${(@)words[i,-1]}")
  (( CURRENT -= i - 2 ))
  case $command in
)";

constexpr const char* kEndOfZsh = R"(  esac
}
if [[ $funcstack[1] == _lockstep ]]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
)";

// Within single quotes, brackets and colons: of a specification.
std::string of_specification(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string action_of(const OptionFacts& option) {
  if (option.choices.empty()) return "_files";
  return fmt::format("({})", fmt::join(option.choices, " "));
}

std::string specifications(const CommandFacts& command) {
  std::string text;
  for (const OptionFacts& option : command.options) {
    if (option.is_positional) continue;
    for (const std::string& name : option.names) {
      const bool is_long = name.rfind("--", 0) == 0;
      const std::string value = option.value.empty()
                                    ? std::string()
                                    : fmt::format(":{}:{}", of_specification(option.value), action_of(option));
      text += fmt::format(" \\\n        '*{}{}[{}]{}'", name,
                          option.value.empty() ? ""
                          : is_long            ? "="
                                               : "+",
                          of_specification(short_help(option)), value);
    }
  }
  return text;
}

std::string of_words(const CommandFacts& command) {
  if (!command.inner.empty()) return fmt::format(" \\\n        '1:subcommand:({})'", fmt::join(command.inner, " "));
  if (command.starts_program) return " \\\n        '(-)1:program:_files' '*::arguments:_files'";
  for (const OptionFacts& option : command.options) {
    if (option.is_positional)
      return fmt::format(" \\\n        '*:{}:{}'", of_specification(option.names.front()), action_of(option));
  }
  return "";
}

}  // namespace

std::string zsh_completions(const std::vector<CommandFacts>& commands) {
  std::string script = kBeginOfZsh;
  script += "      (" + case_of_paths(commands, "|") + kAfterPathsOfZsh;
  std::string outermost;
  for (const CommandFacts& command : commands) {
    if (is_outermost(command)) {
      outermost += fmt::format("\n        '{}:{}'", command.path, of_specification(command.summary));
    }
    script += fmt::format("    ('{}')\n      _arguments -S{}{} ;;\n", command.path, specifications(command),
                          of_words(command));
  }
  script += "    ('')\n      commands=(" + outermost + ")\n";
  script +=
      "      if [[ $words[CURRENT] == -* ]]; then _arguments '--help[list the subcommands]' '--version[print it]'\n";
  script += "      else _describe -t commands subcommand commands; fi ;;\n";
  return script + kEndOfZsh;
}

}  // namespace lockstep
