#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

namespace lockstep {

/// What the main function of a worker does: reads the flags, runs `body`, and prints what it throws.
/// @return  the program's exit status
template <class Body>
int run_worker(CLI::App& app, int argc, char** argv, const Body& body) {
  CLI11_PARSE(app, argc, argv);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace lockstep
