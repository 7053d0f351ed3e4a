#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/detail/seeing/progress_bar_options.h"

namespace lockstep {

/// The content of one line of a progress bar.
struct MeterLine {
  std::int64_t done = 0;
  std::int64_t total = -1;  ///< negative: unknown
  double elapsed_s = 0;
  double per_second = 0;  ///< 0: done / elapsed_s; negative: unknown
  int columns = 0;        ///< width of the whole line; 0: a bar of ten characters
  std::string prefix{};   ///< "Evaluating: "
};

/// The line as tqdm shows it: ` 25%|██▌       | 16/64 [00:12<00:36,  1.33it/s]`, character by character (see
/// tqdm.format_meter, https://github.com/tqdm/tqdm).
std::string meter_line(const MeterLine& line);

/// Seconds as tqdm shows them: 01:05, 1:02:05.
std::string clock_text(double seconds);

/// A progress bar in tqdm's form. On a terminal the line is overwritten; elsewhere, as in a log file, a line is written
/// from time to time and at the end. One thread at a time.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressBarOptions options);
  /// Closes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Sets the number of things that are done.
  void set_done(std::int64_t done);
  /// Hides the bar, calls `print`, which may write lines, and shows the bar again.
  void write_above(const std::function<void()>& print);
  /// Draws the last line. Later calls draw nothing.
  void close();

 private:
  void draw(bool is_last);
  void erase();
  std::string line(double now) const;

  ProgressBarOptions options_;
  std::int64_t done_;
  double start_s_;
  double last_drawn_s_;
  double smoothed_s_ = 0;  // seconds per thing, weighted towards recent ones
  double smoothed_weight_ = 0;
  double last_update_s_;
  std::int64_t last_update_done_;
  std::int64_t drawn_ = -1;  // number in the last plain line
  bool visible_ = false;
  bool closed_ = false;
};

}  // namespace lockstep
