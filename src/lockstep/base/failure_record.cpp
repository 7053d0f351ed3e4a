#include "lockstep/base/failure_record.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <typeinfo>

#include "lockstep/base/environment.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostMessageBytes = std::size_t{1} << 16;

struct Recorder {
  std::mutex mutex;
  bool is_on = false;
  int rank = -1;
  int inner_ranks = 0;               // how many InnerRanks live
  std::optional<FailureCause> last;  // the newest record
  std::terminate_handler next = nullptr;
};

Recorder& the_recorder() {
  static auto* const instance = new Recorder;  // never destroyed: other static objects may still fail at exit
  return *instance;
}

std::atomic<const FailureWatcher*> failure_watcher{nullptr};

void tell_watcher() noexcept {
  if (const FailureWatcher* const watcher = failure_watcher) watcher->on_failure();
}

// The rank that the launcher gave this process; -1 if it gave none that can be read.
int launched_rank() {
  try {
    return static_cast<int>(env_int("RANK").value_or(-1));
  } catch (const std::exception&) {
    return -1;
  }
}

std::string type_of_current() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "no exception";
  int status = 0;
  char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : type->name();
  std::free(name);
  return "an exception of type " + text;
}

nlohmann::json content(const std::string& message, int rank, const std::optional<FailureCause>& cause) {
  nlohmann::json ours = nlohmann::json::object();
  if (rank >= 0) ours["rank"] = rank;
  if (cause) ours["cause"] = to_string(cause->kind);
  if (cause && cause->rank >= 0) ours["blames"] = cause->rank;
  if (cause && cause->kind == FailureCause::Kind::Usage) ours["pid"] = ::getpid();
  return {{"message",
           {{"message", message.substr(0, kMostMessageBytes)},
            {"extraInfo", {{"timestamp", std::to_string(std::time(nullptr))}}}}},
          {"lockstep", ours}};
}

// Written completely or not at all: the launcher may read it at any moment. Not synced to disk, because only living
// processes read it. @return  whether it is written
bool write(const std::string& path, const std::string& text) {
  const std::string part = path + ".part" + std::to_string(::getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(part.c_str(), path.c_str()) == 0) return true;
  std::remove(part.c_str());
  return false;
}

void record(Recorder& recorder, const std::string& message, std::optional<FailureCause> cause) {
  const auto path = env_string("TORCHELASTIC_ERROR_FILE");
  if (!recorder.is_on || !path) return;
  if (!cause) cause = recorder.last;
  if (cause && cause->rank >= 0 && cause->rank == recorder.rank) *cause = {FailureCause::Kind::Own, -1};
  recorder.last = cause;
  write(*path, content(message, recorder.rank, cause).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void record(const std::string& message, const std::optional<FailureCause>& cause) {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  if (recorder.inner_ranks == 0) record(recorder, message, cause);
}

// The process ends, so also a failure of an inner rank is the process's own.
void record_end(const std::string& message, const FailureCause* cause) {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  if (recorder.inner_ranks > 0) return record(recorder, message, FailureCause{});
  record(recorder, message, cause != nullptr ? std::optional(*cause) : std::nullopt);
}

void forget(Recorder& recorder) {
  recorder.last.reset();
  if (const auto path = env_string("TORCHELASTIC_ERROR_FILE")) std::remove(path->c_str());
}

void show_that_file_is_known() {
  if (const auto path = env_string("TORCHELASTIC_ERROR_FILE")) std::ofstream(*path + kKnownEnding);
}

void record_current_exception() noexcept {
  try {
    try {
      if (std::current_exception()) throw;
      record_end("std::terminate was called without an exception", nullptr);
    } catch (const std::exception& error) {
      record_end(error.what(), cause_of(error));
    } catch (...) {
      record_end(type_of_current(), nullptr);
    }
  } catch (...) {  // out of memory: the process ends without a file
  }
}

[[noreturn]] void on_terminate() {
  record_current_exception();
  if (const FailureWatcher* const watcher = failure_watcher) watcher->before_end();
  if (const std::terminate_handler next = the_recorder().next) next();
  std::abort();
}

void turn_on(Recorder& recorder) {
  if (recorder.is_on) return;
  recorder.is_on = true;
  show_that_file_is_known();
  recorder.next = std::set_terminate(on_terminate);
}

}  // namespace

void record_failures_as(int rank) {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  recorder.rank = rank;
  forget(recorder);
  turn_on(recorder);
}

void record_failures() {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  if (recorder.is_on) return;
  recorder.rank = launched_rank();
  turn_on(recorder);
}

InnerRanks::InnerRanks() {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  ++recorder.inner_ranks;
}

InnerRanks::~InnerRanks() {
  Recorder& recorder = the_recorder();
  const std::lock_guard<std::mutex> lock(recorder.mutex);
  --recorder.inner_ranks;
}

void watch_failures(const FailureWatcher* watcher) noexcept { failure_watcher = watcher; }

void forget_failure() noexcept {
  try {
    Recorder& recorder = the_recorder();
    const std::lock_guard<std::mutex> lock(recorder.mutex);
    if (recorder.is_on && recorder.last && recorder.inner_ranks == 0) forget(recorder);
  } catch (...) {  // out of memory: the program is about to fail anyway
  }
}

void record_failure(const std::string& message, const FailureCause& cause) noexcept {
  try {
    record(message, cause);
  } catch (...) {  // out of memory: the launcher reads the rank's output instead
  }
  tell_watcher();
}

bool record_usage_error(const std::string& message) noexcept {
  try {
    Recorder& recorder = the_recorder();
    const std::lock_guard<std::mutex> lock(recorder.mutex);
    const auto path = env_string("TORCHELASTIC_ERROR_FILE");
    if (!path) return false;
    if (recorder.is_on) return recorder.last && recorder.last->kind == FailureCause::Kind::Usage;
    const nlohmann::json json = content(message, launched_rank(), FailureCause{FailureCause::Kind::Usage, -1});
    return write(*path, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } catch (...) {  // out of memory: the launcher sees the exit code
    return false;
  }
}

void record_stop(const std::string& message, bool is_own) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(the_recorder().mutex);
    const auto path = env_string("TORCHELASTIC_ERROR_FILE");
    if (!path) return;
    const int rank = launched_rank();
    const nlohmann::json json = content(message, rank, FailureCause{FailureCause::Kind::Stopped, is_own ? rank : -1});
    write(*path, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } catch (...) {  // out of memory: the launcher sees the exit code
  }
}

void record_failure(const std::exception& error) noexcept {
  try {
    const FailureCause* cause = cause_of(error);
    record(error.what(), cause != nullptr ? std::optional(*cause) : std::nullopt);
  } catch (...) {  // as above
  }
  tell_watcher();
}

}  // namespace lockstep
