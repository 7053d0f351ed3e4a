#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The promise of `static_graph`: every backward computes gradients for the parameters for which the first one did. Who
/// breaks it ends the group.
class StaticGraph {
 public:
  StaticGraph(bool is_promised, const GradientBuckets& buckets, std::shared_ptr<Communicator> communicator)
      : buckets_(buckets),
        communicator_(std::move(communicator)),
        state_(is_promised ? State::Promised : State::Unknown),
        expected_(buckets.num_parameters(), true),
        has_gradient_(buckets.num_parameters(), false) {}

  /// Whether the first backward has shown which parameters get gradients.
  bool is_known() const { return state_ == State::Known; }
  /// Whether the parameter may get a gradient. True if nothing is known.
  bool expects(std::size_t parameter) const { return expected_[parameter]; }

  void begin();
  /// Backward has added to the parameter's gradient. @throws Error  if it is not expected
  void gradient_arrived(std::size_t parameter);
  /// The same of a gradient that another wrapper averages.
  void gradient_passed(std::size_t parameter) { has_gradient_[parameter] = true; }
  /// @throws Error  if a gradient that is expected has not arrived
  void end();

 private:
  enum class State { Unknown, Promised, Known };

  const GradientBuckets& buckets_;
  std::shared_ptr<Communicator> communicator_;
  State state_;
  std::vector<bool> expected_;
  std::vector<bool> has_gradient_;  // in this backward
};

}  // namespace lockstep
