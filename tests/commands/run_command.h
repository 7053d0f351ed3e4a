#pragma once

// Subcommands of `lockstep` in the test's own process, which has LibTorch loaded: a process of its own takes 0.4 s for
// it.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/running_program.h"
#include "tools/frame/command_line.h"

namespace lockstep {

using CommandWords = std::vector<std::string>;

/// Runs the words of a command line, without the program's name, and returns what the program would: its exit code and
/// what it wrote, its log among the errors. For commands that start no ranks, and those of lockstep-bench are not among
/// them.
/// @param input  what it reads from its standard input
/// @param changes  variables to set, or to unset if there is no value, while it runs
/// @param is_in_terminal  whether its standard error is a terminal
/// @throws std::runtime_error  if the command leaves the process in another state, which the next one would see
ProgramEnd run_command(CommandWords words, const std::string& input = "",
                       const std::map<std::string, std::optional<std::string>>& changes = {},
                       bool is_in_terminal = false);

/// The subcommands that run_command knows.
std::vector<SubcommandEntry> entries_of_this_process();

/// What a command writes that must succeed.
std::string run_well(const CommandWords& words, const std::string& input = "");

/// What stands behind the program's name.
inline CommandWords without_program(CommandWords words) {
  words.erase(words.begin());
  return words;
}

inline const std::string kShipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace lockstep
