#pragma once

#include <cstdint>

namespace lockstep {

/// Counts the micro-batches of an update. Shared by the objects that an Accelerator has prepared.
///
/// An update covers `steps` micro-batches, or fewer at the end of a loader: a window never extends into the next epoch.
/// The loss is divided by the number of micro-batches in the window; Accelerate divides by `steps` even if the window
/// is shorter.
class GradientAccumulation {
 public:
  explicit GradientAccumulation(std::int64_t steps) : steps_(steps) {}

  /// Begins the next micro-batch. `left`: batches of the loader after this one; negative if it is unknown.
  void begin(std::int64_t left) {
    if (position_ == 0) window_ = left < 0 || left + 1 > steps_ ? steps_ : left + 1;
    ++position_;
    is_last_ = position_ >= window_ || left == 0;
    if (is_last_) position_ = 0;
  }
  /// Continues in a window of `window` micro-batches of which `position` are done; 0: between two windows.
  void go_on(std::int64_t position, std::int64_t window) {
    position_ = position;
    window_ = window;
    is_last_ = position == 0;
  }

  std::int64_t steps() const { return steps_; }
  std::int64_t window() const { return window_; }      ///< micro-batches of this update
  std::int64_t position() const { return position_; }  ///< number of this micro-batch in the update; 0 at the last
  bool is_last() const { return is_last_; }            ///< gradients are synchronised, and the optimizer steps

 private:
  std::int64_t steps_;
  std::int64_t window_ = 1;
  std::int64_t position_ = 0;
  bool is_last_ = true;
};

}  // namespace lockstep
