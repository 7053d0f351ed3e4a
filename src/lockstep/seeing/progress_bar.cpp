#include "lockstep/seeing/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr int kDefaultBarColumns = 10;
constexpr double kProgressSmoothing = 0.3;  // tqdm's default: weight of the newest value

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0, seen = 0;
  while (end < text.size()) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && ++seen > columns) break;
    ++end;
  }
  return std::string(text.substr(0, end));
}

std::string bar_text(double part, std::size_t columns) {
  const auto eighths = static_cast<std::size_t>(part * static_cast<double>(columns) * 8);
  const std::size_t full = eighths / 8;
  std::string bar;
  for (std::size_t i = 0; i < full; ++i) bar += "█";
  if (full < columns) {
    bar += eighths % 8 == 0 ? " " : kEighths[eighths % 8];
    bar.append(columns - full - 1, ' ');
  }
  return bar;
}

void write_to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int terminal_columns() {
  if (::isatty(STDERR_FILENO) == 0) return 0;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::min(seconds, 1e15)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{:02}:{:02}", minutes, whole % 60);
}

std::string meter_line(const MeterLine& line) {
  const bool is_known = line.total > 0 && line.done <= line.total;
  const double rate = line.per_second != 0 ? line.per_second
                      : line.elapsed_s > 0 ? static_cast<double>(line.done) / line.elapsed_s
                                           : 0;
  const std::string speed = rate <= 0  ? "?it/s"
                            : rate < 1 ? fmt::format("{:5.2f}s/it", 1 / rate)
                                       : fmt::format("{:5.2f}it/s", rate);
  const std::string elapsed = clock_text(line.elapsed_s);
  if (!is_known) {
    return first_columns(fmt::format("{}{}it [{}, {}]", line.prefix, line.done, elapsed, speed),
                         line.columns > 0 ? static_cast<std::size_t>(line.columns) : std::string::npos);
  }
  const double part = static_cast<double>(line.done) / static_cast<double>(line.total);
  const std::string remaining = rate > 0 ? clock_text(static_cast<double>(line.total - line.done) / rate) : "?";
  const std::string left = fmt::format("{}{:3.0f}%|", line.prefix, part * 100);
  const std::string right = fmt::format("| {}/{} [{}<{}, {}]", line.done, line.total, elapsed, remaining, speed);
  if (line.columns <= 0) return left + bar_text(part, kDefaultBarColumns) + right;
  const auto room = static_cast<std::ptrdiff_t>(line.columns) - static_cast<std::ptrdiff_t>(columns_of(left + right));
  const std::string bar = bar_text(part, static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, room)));
  return first_columns(left + bar + right, static_cast<std::size_t>(line.columns));
}

ProgressBar::ProgressBar(ProgressBarOptions options) : options_(std::move(options)), done_(options_.done) {
  if (!options_.write) options_.write = write_to_stderr;
  if (!options_.now_s) options_.now_s = steady_seconds;
  start_s_ = last_update_s_ = options_.now_s();
  last_update_done_ = done_;
  last_drawn_s_ = start_s_;
  draw(false);
}

ProgressBar::~ProgressBar() { close(); }

void ProgressBar::set_done(std::int64_t done) {
  done_ = done;
  const double now = options_.now_s();
  const bool is_terminal = (options_.columns < 0 ? terminal_columns() : options_.columns) > 0;
  if (now - last_drawn_s_ < (is_terminal ? options_.min_interval_s : options_.line_interval_s)) return;
  if (done_ > last_update_done_) {
    const double each = (now - last_update_s_) / static_cast<double>(done_ - last_update_done_);
    smoothed_s_ = kProgressSmoothing * each + (1 - kProgressSmoothing) * smoothed_s_;
    smoothed_weight_ = kProgressSmoothing + (1 - kProgressSmoothing) * smoothed_weight_;
    last_update_s_ = now;
    last_update_done_ = done_;
  }
  draw(false);
}

std::string ProgressBar::line(double now) const {
  MeterLine shown;
  shown.done = done_;
  shown.total = options_.total;
  shown.elapsed_s = now - start_s_;
  const double each = smoothed_weight_ > 0 ? smoothed_s_ / smoothed_weight_ : 0;
  const auto session = static_cast<double>(done_ - options_.done);
  if (closed_ || each <= 0) {
    shown.per_second = shown.elapsed_s > 0 && session > 0 ? session / shown.elapsed_s : -1;
  } else {
    shown.per_second = 1 / each;
  }
  shown.prefix = options_.prefix;
  shown.columns = options_.columns < 0 ? terminal_columns() : options_.columns;
  return meter_line(shown);
}

void ProgressBar::draw(bool is_last) {
  const double now = options_.now_s();
  last_drawn_s_ = now;
  const bool is_terminal = (options_.columns < 0 ? terminal_columns() : options_.columns) > 0;
  if (is_terminal) {
    options_.write("\r" + line(now) + "\033[K" + (is_last ? "\n" : ""));
    visible_ = !is_last;
  } else if (done_ != drawn_ && (done_ != options_.done || is_last)) {
    options_.write(line(now) + "\n");
    drawn_ = done_;
  }
}

void ProgressBar::erase() {
  if (visible_) options_.write("\r\033[K");
  visible_ = false;
}

void ProgressBar::write_above(const std::function<void()>& print) {
  const bool redraw = visible_;
  erase();
  print();
  if (redraw && !closed_) draw(false);
}

void ProgressBar::close() {
  if (closed_) return;
  closed_ = true;
  if (options_.leave) {
    draw(true);
  } else {
    erase();
  }
}

}  // namespace lockstep
