#pragma once

#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// Runs `body`, a part of a training step in which this rank waits for the others. If a rank does not arrive, adds the
/// most likely cause in training to the Error's advice: loops of different lengths.
template <typename Body>
auto advise_on_uneven_inputs(const Body& body) {
  static const char* const kAdvice =
      "; if the ranks have different numbers of batches, run the loop in DistributedDataParallel's join: "
      "ddp.join([&] { ... })";
  const auto is_absence = [](const Error& error) {
    const FailureCause* const cause = cause_of(error);
    return cause != nullptr &&
           (cause->kind == FailureCause::Kind::PeerLeft || cause->kind == FailureCause::Kind::Disagreement);
  };
  try {
    return body();
  } catch (const TimeoutError& error) {
    std::rethrow_exception(with_more_advice(error, kAdvice));
  } catch (const Error& error) {
    if (!is_absence(error)) throw;
    std::rethrow_exception(with_more_advice(error, kAdvice));
  }
}

}  // namespace lockstep
