#pragma once

#include "tools/frame/subcommand.h"

namespace lockstep {

/// One benchmark of `lockstep bench`: its flags and its work. A process of its own runs it, because it measures times
/// and memory; it prints to standard output.
class Benchmark {
 public:
  virtual ~Benchmark() = default;
  /// As Subcommand::add.
  virtual void add(CLI::App& app) = 0;
  /// Measures and prints, and returns the exit code. May throw, as Subcommand::run.
  virtual int run() = 0;
};

}  // namespace lockstep
