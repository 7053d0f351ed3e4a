#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

struct GroupRank;
using GroupRanks = std::vector<std::unique_ptr<GroupRank>>;

/// Ranks that run, without those that the others have not let in yet.
int running_members(const GroupRanks& ranks);

/// Sees which ranks of a group have announced that they survive the loss of others. A process that takes a lost rank's
/// place announces it once the others have let it in.
class RankAnnouncements {
 public:
  /// @param ranks  outlive this object
  /// @param on_survival  called when all ranks have announced it, and when one more process has joined them
  RankAnnouncements(const GroupRanks& ranks, std::function<void()> on_survival)
      : ranks_(ranks), on_survival_(std::move(on_survival)) {}

  /// Looks often for a while: ranks have started.
  void look_soon();
  /// When to look again.
  Deadline next_look() const { return look_at_; }
  void look();
  /// Takes notice of those who have announced it. @return  whether a rank that runs has not yet
  bool take_notice();

 private:
  void greet(GroupRank& rank);

  const GroupRanks& ranks_;
  std::function<void()> on_survival_;
  Deadline look_at_ = Deadline::never();
  std::chrono::milliseconds look_interval_{0};
  bool all_survive_ = false;  // has been reported
};

}  // namespace lockstep
