#pragma once

#include <fmt/format.h>

#include <iosfwd>
#include <string>
#include <string_view>

namespace lockstep {

/// Severity of a log line. `LOCKSTEP_LOG_LEVEL` (debug, info, warning, error, off) sets the lowest level that is
/// written; default: warning.
enum class LogLevel { Debug, Info, Warning, Error, Off };

/// Writes one line to standard error: time, level, `[rank N]` after `set_log_rank`, text. Thread-safe.
void log_line(LogLevel level, std::string_view text);
bool log_enabled(LogLevel level);
/// The rank to write in each line of this process; negative: no rank.
void set_log_rank(int rank);

/// While it lives, the log lines of this process go to a stream and not to standard error: for a program that runs
/// commands by itself. One at a time; no other thread may log when it is made or destroyed.
class LogRedirection {
 public:
  explicit LogRedirection(std::ostream& to);
  ~LogRedirection();
  LogRedirection(const LogRedirection&) = delete;
  LogRedirection& operator=(const LogRedirection&) = delete;
};

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::Debug)) log_line(LogLevel::Debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::Info)) log_line(LogLevel::Info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::Warning)) log_line(LogLevel::Warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
