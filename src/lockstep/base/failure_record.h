#pragma once

#include <exception>
#include <string>

#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// A rank's failure as a file, for the launcher that named one in TORCHELASTIC_ERROR_FILE (`lockstep run`, torchrun):
/// in PyTorch's format, and with the cause beside it.
///
///     {"message": {"message": "...", "extraInfo": {"timestamp": "1763820000"}},
///      "lockstep": {"rank": 1, "cause": "lost_peer", "blames": 0}}
///
/// "cause" is missing where only the text can tell; "blames" where nobody is. Without the variable, or before
/// `record_failures_as`, nothing is written. Thread-safe.

/// From now on failures of this process are recorded as those of `rank`: those that `record_failure` is told, and
/// exceptions that nobody catches (by a terminate handler, which then calls the one that was there before). To be
/// called for each new group: what was recorded before is forgotten, since the program has survived it.
/// @param rank  in the job; -1: not known yet
void record_failures_as(int rank);

/// Writes the file anew. A cause that blames this very rank counts as its own.
void record_failure(const std::string& message, const FailureCause& cause) noexcept;

/// The same for an exception. Thrown without a cause, it has that of the failure recorded before: who catches an error
/// and throws another one does not become its cause.
void record_failure(const std::exception& error) noexcept;

/// Removes what was recorded: the program has survived it.
void forget_failure() noexcept;

/// Throws `error` with `cause`, another rank's failure, and records it first: a program may catch it and end with an
/// exit code alone.
template <class AnError>
[[noreturn]] void throw_recorded(const AnError& error, const FailureCause& cause) {
  const Caused<AnError> caused(error, cause);
  record_failure(caused);
  throw caused;
}

}  // namespace lockstep
