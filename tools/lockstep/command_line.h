#pragma once

#include <exception>
#include <string>
#include <vector>

#include "tools/lockstep/subcommand.h"

namespace lockstep {

/// A row of `subcommands.inc`.
struct SubcommandEntry {
  std::string name;     ///< as typed: with hyphens
  std::string summary;  ///< one line
  std::string example;  ///< one command line
  MakeSubcommand make;  ///< null where the other binary holds it
};

/// "frob_data" as it is typed: "frob-data".
std::string with_hyphens(std::string name);

/// Runs the command line `argv` and returns its exit code: 0 well, 1 failed, 2 not understood.
/// A subcommand whose `make` is null is handed to the program `companion` beside this one, in place of this process.
/// @param describe  the text of an exception that is not an Error
int run_command_line(const std::vector<SubcommandEntry>& entries, const std::string& companion, int argc, char** argv,
                     std::string (*describe)(const std::exception&));

}  // namespace lockstep
