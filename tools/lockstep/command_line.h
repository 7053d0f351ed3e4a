#pragma once

#include <exception>
#include <string>
#include <vector>

#include "tools/lockstep/subcommand.h"

namespace lockstep {

/// A row of `subcommands.inc`.
struct SubcommandEntry {
  std::string name;     ///< as typed, with hyphens
  std::string summary;  ///< one line
  std::string example;  ///< one command line
  MakeSubcommand make;  ///< null if another program contains it
  std::string program;  ///< that contains it
};

/// Runs the command line `argv` and returns its exit code: 0 success, 1 failure, 2 not understood. A subcommand whose
/// `make` is null is passed to its program, beside this one, which replaces this process.
/// @param describe  the text of an exception that is not an Error
int run_command_line(const std::vector<SubcommandEntry>& entries, int argc, char** argv,
                     std::string (*describe)(const std::exception&));

}  // namespace lockstep
