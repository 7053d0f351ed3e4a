#pragma once

#include <exception>
#include <string>

#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// A rank's failure as a file, for the launcher that set TORCHELASTIC_ERROR_FILE (`lockstep run`, torchrun). The file
/// has PyTorch's format, with the cause added:
///
///     {"message": {"message": "...", "extraInfo": {"timestamp": "1763820000"}},
///      "lockstep": {"rank": 1, "cause": "lost_peer", "blames": 0}}
///
/// With the cause "usage" there is "pid", too. With "stopped" the blamed rank, if there is one, got the signal.
/// "cause" is missing if it can only be read from the text; "blames" is missing if no rank is blamed. Without the
/// variable, or before `record_failures_as`, nothing is written. Thread-safe.
///
/// An empty file beside it, of that name and kKnownEnding, shows that this process has the variable: no record then
/// means that it has no failure to report, or has survived it.
constexpr const char* kKnownEnding = ".known";

/// From now on failures of this process are recorded as failures of `rank`: those passed to `record_failure`, and
/// uncaught exceptions (by a terminate handler, which then calls the previous one). Call it for each new group: earlier
/// records are dropped, because the program has survived them.
/// @param rank  rank in the job; -1: not known yet
void record_failures_as(int rank);

/// Does the same for a process that starts ranks of its own, if none of these functions was called before. Its rank is
/// the one that the launcher gave it.
void record_failures();

/// While it lives, `record_failure` does nothing, because the ranks that fail meanwhile are not ranks of the launcher's
/// job: their numbers mean others there. Uncaught exceptions are still recorded, as failures of this process.
class InnerRanks {
 public:
  InnerRanks();
  ~InnerRanks();
  InnerRanks(const InnerRanks&) = delete;
  InnerRanks& operator=(const InnerRanks&) = delete;
};

/// Replaces the file. A cause that blames this rank itself counts as its own failure.
void record_failure(const std::string& message, const FailureCause& cause) noexcept;

/// Records an exception. If it was thrown without a cause, it gets the cause of the failure recorded before: code that
/// catches an error and throws another one does not become its cause.
void record_failure(const std::exception& error) noexcept;

/// Records that this process refuses what it was started with. Writes nothing once it records failures: then it has met
/// other ranks, or begun to, and `record_failure` says whether another start may end otherwise. A reader must compare
/// the process's number in the file with the rank's: a rank may start programs, whose mistakes are not its own.
/// @return  whether a refusal is recorded, for the launcher to show
bool record_usage_error(const std::string& message) noexcept;

/// Records that this process, which has not failed, ends because a signal has asked a rank to. `message` says what was
/// done before. The process then ends with exit code 128 + the signal's number.
/// @param is_own  this rank got the signal: the record blames it
void record_stop(const std::string& message, bool is_own) noexcept;

/// What else is done when this process fails, with or without a file.
struct FailureWatcher {
  void (*on_failure)() noexcept;  ///< after each record, in the thread that records it; must not block
  void (*before_end)() noexcept;  ///< before an uncaught exception ends the process, which it may delay
};

/// Replaces the watcher that was there. Null: nothing is called.
void watch_failures(const FailureWatcher* watcher) noexcept;

/// Removes the record: the program has survived the failure.
void forget_failure() noexcept;

/// Records another rank's failure, `error` with `cause`, and throws it. It is recorded first because a program may
/// catch it and end with only an exit code.
template <class AnError>
[[noreturn]] void throw_recorded(const AnError& error, const FailureCause& cause) {
  const Caused<AnError> caused(error, cause);
  record_failure(caused);
  throw caused;
}

}  // namespace lockstep
