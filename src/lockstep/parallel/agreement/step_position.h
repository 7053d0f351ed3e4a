#pragma once

#include <cstdint>
#include <exception>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// A rank's place in a training with a fused optimizer.
struct StepPosition {
  std::uint64_t steps = 0;      ///< updates so far
  std::uint64_t backwards = 0;  ///< synchronised ones since the last update
};

/// For what a call has thrown in which ranks of a fused training meet. If the engine has found that they make different
/// calls, the ranks tell each other by the store of the group where they are, for two seconds at most. If they are in
/// different places, one of them has left out a step, or a backward.
/// @param call  "a step": what this rank was doing
/// @return  an Error that says so, with the same cause; `failure` itself if it is of another kind, or if the places are
/// equal or not known. Does not throw
std::exception_ptr with_positions(const Communicator& communicator, const StepPosition& own, const char* call,
                                  const std::exception_ptr& failure) noexcept;

/// Runs `body`, which may throw such a failure.
template <typename Body>
auto with_positions_of_ranks(const Communicator& communicator, const StepPosition& own, const char* call,
                             const Body& body) {
  try {
    return body();
  } catch (...) {
    std::rethrow_exception(with_positions(communicator, own, call, std::current_exception()));
  }
}

}  // namespace lockstep
