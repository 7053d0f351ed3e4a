#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A simple command of a shell's script.
struct ShellCommand {
  int line = 0;                    ///< of its first word, from 1
  std::vector<std::string> words;  ///< as they are written, quotes and all
};

/// The simple commands of a script for Bash, in their order: also those that stand behind `;`, `&&`, `||`, `|` and `&`,
/// in loops, in branches and on continued lines. Keywords, assignments before a command, comments and here-documents
/// are left out; a command of assignments alone is none. What stands within quotes, `$(...)`, `[[...]]` or `((...))`
/// is taken as a word.
std::vector<ShellCommand> shell_commands(const std::string& text);

}  // namespace lockstep
