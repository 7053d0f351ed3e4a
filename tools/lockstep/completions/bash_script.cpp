#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {
namespace {

constexpr const char* kBeginOfBash = R"(# bash completion for lockstep, written by `lockstep completions bash`
_lockstep() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command= word= flags= valued= inner= choices= starts=
  local -i i
  COMPREPLY=()
  # "--flag=value" is three words
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$command $word" in
)";

constexpr const char* kAfterPathsOfBash = R"( command=${command:+$command }$word ;;
      *) break ;;
    esac
  done
  case $command in
)";

// Behind the program that a command starts, words are the program's.
constexpr const char* kEndOfBash = R"(  esac
  if [[ -n $starts ]]; then
    for (( ; i < COMP_CWORD; i++)); do
      word=${COMP_WORDS[i]}
      if [[ $word == -- || $word != -* ]]; then return 0; fi
      if [[ " $valued " == *" $word "* ]]; then
        if [[ ${COMP_WORDS[i+1]} == = ]]; then i+=1; fi
        i+=1
      fi
    done
  fi
  if [[ -n $choices ]]; then
    COMPREPLY=($(compgen -W "$choices" -- "$cur"))
  elif [[ " $valued " == *" $prev "* ]]; then
    return 0
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ -n $inner ]]; then
    COMPREPLY=($(compgen -W "$inner" -- "$cur"))
  fi
}
complete -o bashdefault -o default -F _lockstep lockstep
)";

std::string choices_of(const CommandFacts& command) {
  std::string cases;
  for (const OptionFacts& option : command.options) {
    if (option.is_positional || option.choices.empty()) continue;
    cases += fmt::format("        {}) choices='{}' ;;\n", fmt::join(option.names, "|"), fmt::join(option.choices, " "));
  }
  return cases.empty() ? "" : "      case $prev in\n" + cases + "      esac\n";
}

// The values of a positional word with choices are completed as inner commands.
std::vector<std::string> inner_words(const CommandFacts& command) {
  std::vector<std::string> words = command.inner;
  for (const OptionFacts& option : command.options) {
    if (option.is_positional) words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  return words;
}

}  // namespace

std::string bash_completions(const std::vector<CommandFacts>& commands) {
  std::string script = kBeginOfBash;
  script += "      " + case_of_paths(commands, "|") + ")" + kAfterPathsOfBash;
  std::vector<std::string> outermost{"help"};
  for (const CommandFacts& command : commands) {
    if (is_outermost(command)) outermost.push_back(command.path);
    script += fmt::format("    '{}')\n      flags='{}'\n", command.path,
                          fmt::join(flags_for(command, [](const OptionFacts&) { return true; }), " "));
    const auto valued = flags_for(command, [](const OptionFacts& option) { return !option.value.empty(); });
    if (!valued.empty()) script += fmt::format("      valued='{}'\n", fmt::join(valued, " "));
    const std::vector<std::string> inner = inner_words(command);
    if (!inner.empty()) script += fmt::format("      inner='{}'\n", fmt::join(inner, " "));
    if (command.starts_program) script += "      starts=yes\n";
    script += choices_of(command) + "      ;;\n";
  }
  script += fmt::format("    '') flags='--help --version' inner='{}' ;;\n", fmt::join(outermost, " "));
  return script + kEndOfBash;
}

}  // namespace lockstep
