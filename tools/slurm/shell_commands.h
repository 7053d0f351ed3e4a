#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A simple command of a shell script.
struct ShellCommand {
  int line = 0;                    ///< of its first word, from 1
  std::vector<std::string> words;  ///< as written, with quotes
};

/// The simple commands of a Bash script, in their order, including those after `;`, `&&`, `||`, `|` and `&`, in loops,
/// in branches and on continued lines. Keywords, assignments before a command, comments and here-documents are left
/// out; a line with only assignments is not a command. Text within quotes, `$(...)`, `[[...]]` or `((...))` counts as a
/// word.
std::vector<ShellCommand> shell_commands(const std::string& text);

}  // namespace lockstep
