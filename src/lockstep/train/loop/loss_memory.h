#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep {

/// The mean losses of updates: those since the last log, and all of the training.
class LossMemory {
 public:
  struct Sum {
    double losses = 0;
    std::int64_t updates = 0;
  };

  void note(double mean_of_update) {
    for (Sum* sum : {&unlogged_, &all_}) {
      sum->losses += mean_of_update;
      ++sum->updates;
    }
  }
  /// An update without a loss, because none of its samples has a label that counts.
  void note_nothing() { has_unlogged_nothing_ = true; }
  /// Whether there was one since the last log.
  bool has_unlogged_nothing() const { return has_unlogged_nothing_; }
  /// The mean since the last log, which starts over; nothing if no update had a loss.
  std::optional<double> take_unlogged_mean() {
    has_unlogged_nothing_ = false;
    const Sum sum = std::exchange(unlogged_, {});
    if (sum.updates == 0) return std::nullopt;
    return sum.losses / static_cast<double>(sum.updates);
  }
  /// The mean of the training's updates, also those before a checkpoint; 0 if none had a loss.
  double mean() const { return all_.updates == 0 ? 0 : all_.losses / static_cast<double>(all_.updates); }

  /// For a checkpoint, and a rank that takes over another one's state.
  const Sum& unlogged() const { return unlogged_; }
  void set_unlogged(const Sum& sum) { unlogged_ = sum; }
  const Sum& all() const { return all_; }
  void set_all(const Sum& sum) { all_ = sum; }

 private:
  Sum unlogged_;
  Sum all_;
  bool has_unlogged_nothing_ = false;
};

}  // namespace lockstep
