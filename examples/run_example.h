#pragma once

// Reads the command lines of the examples, and turns their errors into exit codes.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>

/// The exit code of main: 0, or 1 after an exception of `train`, or 2 if the command line is wrong.
inline int run_example(CLI::App& app, int argc, char** argv, const std::function<void()>& train) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line at once, also into a pipe
  try {
    app.parse(argc, argv);
    train();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
