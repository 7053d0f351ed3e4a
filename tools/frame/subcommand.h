#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tools/frame/command_streams.h"

namespace lockstep {

/// One subcommand of `lockstep`: its flags and its work.
///
/// To add `lockstep frob-data`: write `tools/lockstep/frob_data.cpp` with a class derived from this one, in an
/// anonymous namespace, and `std::unique_ptr<Subcommand> make_frob_data()`; then add one line to `subcommands.inc`.
class Subcommand {
 public:
  virtual ~Subcommand() = default;
  /// Declares flags, positionals and nested subcommands on `app`, bound to members. Flags are spelled with hyphens;
  /// underscores are accepted too. Ends with `show_examples`.
  virtual void add(CLI::App& app) = 0;
  /// Does the work after the flags were read, and returns the exit code. It reads and writes `streams` alone, so that a
  /// command can run in any process; what it starts has the process's own. May throw: an Error is printed once, with
  /// the rank if there is one, and the exit code is 1; for a UsageError it is 2.
  virtual int run(const CommandStreams& streams) = 0;
};

using MakeSubcommand = std::unique_ptr<Subcommand> (*)();

/// Puts example command lines at the end of `--help`.
void show_examples(CLI::App& app, const std::vector<std::string>& command_lines);

}  // namespace lockstep
