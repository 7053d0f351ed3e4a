#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// How a progress bar is drawn, in tqdm's form.
struct ProgressBarOptions {
  std::int64_t total = -1;      ///< units of work in all; -1: unknown, so that only count, time and speed are drawn
  std::int64_t done = 0;        ///< units done before the start; not part of the speed
  std::string prefix{};         ///< text in front of the bar
  bool leave = true;            ///< false: the line is erased when the bar is closed
  double min_interval_s = 0.1;  ///< between two lines on a terminal
  double line_interval_s = 10;  ///< between two lines elsewhere
  /// Receives what is drawn. Default: standard error, with a bar as wide as the terminal, or plain lines if it is not a
  /// terminal.
  std::function<void(std::string_view)> write{};
  int columns = -1;                 ///< width of the terminal; 0: no terminal, plain lines; negative: queried each time
  std::function<double()> now_s{};  ///< default: a steady clock
};

}  // namespace lockstep
