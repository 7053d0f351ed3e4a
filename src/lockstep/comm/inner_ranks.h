#pragma once

#include <atomic>
#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"

namespace lockstep {

/// Runs `body`, which starts ranks of its own and waits for them. What it throws is recorded as a failure of this
/// process: a cause in it would name one of those ranks, whose number means another rank in the job of this process.
template <class Body>
void run_inner_ranks(const Body& body) {
  static std::atomic<bool> has_recorded{false};  // by this function, with such a body
  record_failures();
  try {
    const InnerRanks inner;
    body();
  } catch (const Error& error) {
    record_failure(error.what(), FailureCause{});
    has_recorded = true;
    if (cause_of(error) == nullptr) throw;
    std::rethrow_exception(without_cause(error));
  } catch (const std::exception& error) {
    record_failure(error.what(), FailureCause{});
    has_recorded = true;
    throw;
  }
  // Only what an earlier call recorded: the process's own group may have failed as well.
  if (has_recorded.exchange(false)) forget_failure();
}

}  // namespace lockstep
