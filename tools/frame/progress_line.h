// Progress of a benchmark, on a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace lockstep {

/// One line on stderr that is overwritten repeatedly, and cleared by the destructor; does nothing if stderr is not a
/// terminal.
class ProgressLine {
 public:
  ProgressLine() = default;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { show(""); }

  void show(const std::string& text) const {
    if (is_terminal_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
};

}  // namespace lockstep
