// Programs that a command starts through a shell.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {

/// `word` quoted as one word of a shell's command line, whatever it contains.
inline std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// The start of a shell's command line whose program gets the environment that the user gave this one, without the
/// variables that Lockstep chose: for measuring a peer as others start it.
inline std::string as_the_user_started() {
  std::string words = "env";
  for (const std::string& name : chosen_names()) words += " -u " + name;
  return words + " -u " + kChosenVariable + " ";
}

/// Runs `command` in a shell. Returns its exit code (-1 after a signal), and what it printed on its standard output.
/// @throws Error  if no shell can be started
inline std::pair<int, std::string> run_shell(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw Error("cannot start a shell", command, "check the limits on processes");
  std::string text;
  char block[4096];
  for (std::size_t got = 0; (got = std::fread(block, 1, sizeof(block), pipe)) > 0;) text.append(block, got);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

}  // namespace lockstep
