#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep {

/// The mean losses of updates: those since the last log, and all of this session.
class LossMemory {
 public:
  struct Sum {
    double losses = 0;
    std::int64_t updates = 0;
  };

  void note(double mean_of_update) {
    for (Sum* sum : {&unlogged_, &session_}) {
      sum->losses += mean_of_update;
      ++sum->updates;
    }
  }
  /// The mean since the last log, which starts over; nothing if no update had a loss.
  std::optional<double> take_unlogged_mean() {
    const Sum sum = std::exchange(unlogged_, {});
    if (sum.updates == 0) return std::nullopt;
    return sum.losses / static_cast<double>(sum.updates);
  }
  /// The mean of this session's updates; 0 if none had a loss.
  double session_mean() const {
    return session_.updates == 0 ? 0 : session_.losses / static_cast<double>(session_.updates);
  }

  /// For a checkpoint.
  const Sum& unlogged() const { return unlogged_; }
  void set_unlogged(const Sum& sum) { unlogged_ = sum; }
  /// For a rank that takes over another one's state.
  const Sum& session() const { return session_; }
  void set_session(const Sum& sum) { session_ = sum; }

 private:
  Sum unlogged_;
  Sum session_;
};

}  // namespace lockstep
