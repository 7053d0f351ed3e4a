#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

/// The promise of `static_graph`: every backward computes gradients for the parameters for which the first one did.
class StaticGraph {
 public:
  StaticGraph(bool is_promised, std::size_t parameters)
      : state_(is_promised ? State::Promised : State::Unknown), expected_(parameters, true) {}

  /// Whether the first backward has shown which parameters get gradients.
  bool is_known() const { return state_ == State::Known; }
  /// Whether the parameter may get a gradient. True if nothing is known.
  bool expects(std::size_t parameter) const { return expected_[parameter]; }
  /// A backward has ended. @param has_gradient  by parameter
  /// @return  a parameter that should have got a gradient
  std::optional<std::size_t> end_backward(const std::vector<bool>& has_gradient) {
    if (state_ == State::Promised) {
      expected_ = has_gradient;
      state_ = State::Known;
    }
    for (std::size_t i = 0; is_known() && i < expected_.size(); ++i) {
      if (expected_[i] && !has_gradient[i]) return i;
    }
    return {};
  }

 private:
  enum class State { Unknown, Promised, Known };

  State state_;
  std::vector<bool> expected_;
};

}  // namespace lockstep
