#include "lockstep/base/log.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

constexpr const char* kLinePattern = "%H:%M:%S.%e %^%l%$ %v";

std::atomic<int> log_rank{-1};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warning:
      return spdlog::level::warn;
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

LogLevel level_from_environment() {
  const auto text = env_string("LOCKSTEP_LOG_LEVEL");
  if (!text || *text == "warning") return LogLevel::Warning;
  if (*text == "debug") return LogLevel::Debug;
  if (*text == "info") return LogLevel::Info;
  if (*text == "error") return LogLevel::Error;
  if (*text == "off") return LogLevel::Off;
  throw Error("LOCKSTEP_LOG_LEVEL is \"" + *text + "\"", "environment", "set it to debug, info, warning, error or off");
}

spdlog::logger& logger() {
  // Never destroyed: threads of other static objects may still log at exit.
  static spdlog::logger* const instance = [] {
    auto* created = new spdlog::logger("lockstep", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern(kLinePattern);
    created->set_level(to_spdlog(level_from_environment()));
    return created;
  }();
  return *instance;
}

}  // namespace

void log_line(LogLevel level, std::string_view text) {
  const int rank = log_rank.load(std::memory_order_relaxed);
  const std::string shown = printable_lines(text);  // it may quote a file or a peer
  if (rank >= 0) {
    logger().log(to_spdlog(level), "[rank {}] {}", rank, shown);
  } else {
    logger().log(to_spdlog(level), "{}", shown);
  }
}

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void set_log_rank(int rank) { log_rank.store(rank, std::memory_order_relaxed); }

LogRedirection::LogRedirection(std::ostream& to) {
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(to);
  sink->set_pattern(kLinePattern);
  for (const auto& each : logger().sinks()) each->set_level(spdlog::level::off);
  logger().sinks().push_back(std::move(sink));
}

LogRedirection::~LogRedirection() {
  logger().sinks().pop_back();
  for (const auto& each : logger().sinks()) each->set_level(spdlog::level::trace);
}

}  // namespace lockstep
