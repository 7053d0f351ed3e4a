#pragma once

#include <string>
#include <vector>

#include "tools/frame/command_facts.h"

namespace lockstep {

// Completions of `lockstep` for shells: subcommands, flags and the values of those that take some alone; elsewhere
// files. Each is a script that needs no program of Lockstep when it runs.

std::string bash_completions(const std::vector<CommandFacts>& commands);
std::string zsh_completions(const std::vector<CommandFacts>& commands);
std::string fish_completions(const std::vector<CommandFacts>& commands);

/// The manual page lockstep(1), for man's macros of troff.
std::string manual_page(const std::vector<CommandFacts>& commands);

/// The command whose path is one word and is of `lockstep` itself.
inline bool is_outermost(const CommandFacts& command) { return command.path.find(' ') == std::string::npos; }

/// "' run'|' config'|'config default'": paths as a case of a shell, each with a blank between the command that was
/// found and the next word.
std::string case_of_paths(const std::vector<CommandFacts>& commands, const char* between);

/// Names of flags, of all of them or of those for which `is_one` holds.
template <typename Condition>
std::vector<std::string> flags_for(const CommandFacts& command, const Condition& is_one) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options) {
    if (option.is_positional || !is_one(option)) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

/// The help's first line, short enough for a list beside the flags.
std::string short_help(const OptionFacts& option);

}  // namespace lockstep
