#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// What one line of a progress bar shows.
struct MeterLine {
  std::int64_t done = 0;
  std::int64_t total = -1;  ///< negative: not known
  double elapsed_s = 0;
  double per_second = 0;  ///< 0: done / elapsed_s; negative: not known
  int columns = 0;        ///< width of the whole line; 0: a bar of ten characters
  std::string prefix{};   ///< "Evaluating: "
  std::string postfix{};  ///< "loss=0.5"
};

/// The line as tqdm shows it: ` 25%|██▌       | 16/64 [00:12<00:36,  1.33it/s]`, its characters the same (see
/// tqdm.format_meter, https://github.com/tqdm/tqdm).
std::string meter_line(const MeterLine& line);

/// Seconds as tqdm shows them: 01:05, 1:02:05.
std::string clock_text(double seconds);

struct ProgressBarOptions {
  std::int64_t total = -1;
  std::int64_t done = 0;  ///< done before, which does not count for the speed
  std::string prefix{};
  bool leave = true;            ///< false: the line goes away when the bar is closed
  double min_interval_s = 0.1;  ///< between two lines on a terminal
  double line_interval_s = 10;  ///< between two lines elsewhere
  /// Where it is drawn. Default: standard error, a bar as wide as the terminal, or plain lines where it is none.
  std::function<void(std::string_view)> write{};
  int columns = -1;                 ///< of the terminal; 0: no terminal, plain lines; negative: asked for each time
  std::function<double()> now_s{};  ///< default: a steady clock
};

/// A progress bar in tqdm's shape. On a terminal the line is drawn over; elsewhere, in a log file, a line is written
/// now and then, and one at the end. One thread at a time.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressBarOptions options);
  /// Closes it.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` things are done by now.
  void set_done(std::int64_t done);
  /// What stands behind the speed, from the next line on.
  void set_postfix(std::string postfix) { postfix_ = std::move(postfix); }
  /// Calls `print`, which writes a line somewhere, with the bar out of its way.
  void write_above(const std::function<void()>& print);
  /// Draws the last line. Nothing is drawn afterwards.
  void close();

 private:
  void draw(bool is_last);
  void erase();
  std::string line(double now) const;

  ProgressBarOptions options_;
  std::int64_t done_;
  std::string postfix_;
  double start_s_;
  double last_drawn_s_;
  double smoothed_s_ = 0;  // per thing, recent ones counting more
  double smoothed_weight_ = 0;
  double last_update_s_;
  std::int64_t last_update_done_;
  std::int64_t drawn_ = -1;  // what the last plain line showed
  bool visible_ = false;
  bool closed_ = false;
};

}  // namespace lockstep
