#pragma once

#include <exception>
#include <string>
#include <vector>

#include "tools/frame/command_streams.h"
#include "tools/frame/subcommand.h"

namespace lockstep {

/// A row of `subcommands.inc`.
struct SubcommandEntry {
  std::string name;     ///< as typed, with hyphens
  std::string summary;  ///< one line
  std::string example;  ///< one command line
  MakeSubcommand make;  ///< null if another program contains it
  std::string program;  ///< that contains it
};

/// The text of an exception that is not an Error.
using DescribeError = std::string (*)(const std::exception&);

/// Runs the words of a command line, without the program's name, and returns the exit code: 0 success, 1 failure, 2 not
/// understood. A subcommand whose `make` is null is unknown here.
int run_command(const std::vector<SubcommandEntry>& entries, std::vector<std::string> words,
                const CommandStreams& streams, DescribeError describe);

/// Does the same for a program's main function, on the standard streams. A subcommand whose `make` is null is passed to
/// its program, beside this one, which replaces this process.
int run_command_line(const std::vector<SubcommandEntry>& entries, int argc, char** argv, DescribeError describe);

}  // namespace lockstep
