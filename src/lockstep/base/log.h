#pragma once

#include <fmt/format.h>

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
