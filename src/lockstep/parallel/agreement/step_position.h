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

/// Counts them.
class StepCounter {
 public:
  /// A synchronised backward has reached the parameters, or sums of slices were made.
  void note_backward() { ++backwards_; }
  /// A fused optimizer has made a step.
  void note_step() { last_step_ = {last_step_.steps + 1, backwards_}; }
  /// All of them.
  std::uint64_t backwards() const { return backwards_; }
  StepPosition position() const { return {last_step_.steps, backwards_ - last_step_.backwards}; }

 private:
  std::uint64_t backwards_ = 0;
  StepPosition last_step_;  // its `backwards` are all that were before it
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
