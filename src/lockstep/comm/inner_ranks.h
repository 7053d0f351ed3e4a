#pragma once

#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"

namespace lockstep {

/// Runs `body`, which starts ranks of its own and waits for them. What it throws is recorded as a failure of this
/// process: a cause in it would name one of those ranks, whose number means another rank in the job of this process.
template <class Body>
void run_inner_ranks(const Body& body) {
  record_failures();
  try {
    const InnerRanks inner;
    body();
  } catch (const Error& error) {
    record_failure(error.what(), FailureCause{});
    if (cause_of(error) == nullptr) throw;
    std::rethrow_exception(without_cause(error));
  } catch (const std::exception& error) {
    record_failure(error.what(), FailureCause{});
    throw;
  }
  forget_failure();
}

}  // namespace lockstep
