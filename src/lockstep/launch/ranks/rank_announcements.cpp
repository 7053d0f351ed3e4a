#include "lockstep/launch/ranks/rank_announcements.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/log.h"
#include "lockstep/launch/ranks/group_rank.h"

namespace lockstep {
namespace {

// Between looks for announcements, which become rarer the longer none comes: most programs never make one.
constexpr std::chrono::milliseconds kFirstLooks{20};
constexpr std::chrono::milliseconds kLaterLooks{250};

}  // namespace

int running_members(const GroupRanks& ranks) {
  return static_cast<int>(
      std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return !rank->ended && rank->is_member; }));
}

void RankAnnouncements::look_soon() {
  look_interval_ = kFirstLooks;
  look_at_ = Deadline::after(look_interval_);
}

void RankAnnouncements::look() {
  look_at_ = Deadline::never();
  const bool is_awaited = take_notice();
  if (!is_awaited && running_members(ranks_) > 0 && !std::exchange(all_survive_, true)) on_survival_();
  if (!is_awaited) return;
  look_interval_ = std::min(look_interval_ * 9 / 8, kLaterLooks);
  look_at_ = Deadline::after(look_interval_);
}

bool RankAnnouncements::take_notice() {
  bool is_awaited = false;
  for (const auto& rank : ranks_) {
    if (rank->ended || rank->is_greeted) continue;
    if (rank->has_announced_survival()) {
      greet(*rank);
    } else {
      is_awaited = true;
    }
  }
  return is_awaited;
}

void RankAnnouncements::greet(GroupRank& rank) {
  rank.is_greeted = true;
  if (std::exchange(rank.is_member, true)) return;
  const std::string as = rank.place.rank == rank.place.member ? fmt::format("as rank {}", rank.place.rank)
                                                              : fmt::format("in the place of rank {}", rank.place.rank);
  log_warning("a new process (pid {}) has joined {}: {} ranks on this host", rank.process.pid, as,
              running_members(ranks_));
  on_survival_();
}

}  // namespace lockstep
