// Processes that take the places of lost ranks whose loss the others survive.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/ranks/group_rank.h"

namespace lockstep {
namespace {

// Between looks for announcements, which become rarer the longer none comes: most programs never make one.
constexpr std::chrono::milliseconds kFirstLooks{20};
constexpr std::chrono::milliseconds kLaterLooks{250};

}  // namespace

RankGroup::Rank& RankGroup::that_ended(const RankEnd& end) const {
  const auto is_it = [&](const auto& each) { return each->process.pid == end.pid && each->ended; };
  return **std::find_if(ranks_.rbegin(), ranks_.rend(), is_it);
}

void RankGroup::replace(const RankEnd& lost, int member) {
  Rank& ended = that_ended(lost);
  RankPlace place = ended.place;
  place.member = member;
  Rank& rank = start_rank(place, node_cores());
  try {
    confirm_start(rank.process, rank.command);
  } catch (const Error&) {
    rank.ended = true;
    --running_;
    parts_.loop.forget(std::exchange(rank.watch, 0));
    throw;
  }
  ended.command = ChildCommand{};  // the environment is large, and the new process has its own
  look_soon();
  if (parts_.plan.warm_spares) prepare_at_ = Deadline::after(kSpareDelay);
}

void RankGroup::look_soon() {
  look_interval_ = kFirstLooks;
  look_at_ = Deadline::after(look_interval_);
}

void RankGroup::look_for_announcements() {
  look_at_ = Deadline::never();
  const bool is_awaited = greet_those_who_announced();
  if (!is_awaited && running_members() > 0 && !std::exchange(all_survive_, true)) on_survival_();
  if (!is_awaited) return;
  look_interval_ = std::min(look_interval_ * 9 / 8, kLaterLooks);
  look_at_ = Deadline::after(look_interval_);
}

// @return  whether a rank that runs has not announced it yet
bool RankGroup::greet_those_who_announced() {
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

void RankGroup::greet(Rank& rank) {
  rank.is_greeted = true;
  if (std::exchange(rank.is_member, true)) return;
  const std::string as = rank.place.rank == rank.place.member ? fmt::format("as rank {}", rank.place.rank)
                                                              : fmt::format("in the place of rank {}", rank.place.rank);
  log_warning("a new process (pid {}) has joined {}: {} ranks on this host", rank.process.pid, as, running_members());
  on_survival_();
}

int RankGroup::running_members() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank->ended && rank->is_member; }));
}

int RankGroup::joined_members() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const auto& rank) { return rank->place.member >= 0 && rank->is_member; }));
}

bool RankGroup::a_member_succeeded() const {
  return std::any_of(ends_.begin(), ends_.end(),
                     [](const RankEnd& end) { return end.was_member && end.status.success(); });
}

std::vector<std::string> RankGroup::survival_files() const {
  std::vector<std::string> files;
  for (const auto& rank : ranks_) {
    if (!rank->ended) files.push_back(rank->place.survival_file);
  }
  return files;
}

bool RankGroup::last_announced_survival() const {
  const Rank& rank = that_ended(ends_.back());
  return !rank.is_member || rank.has_announced_survival();
}

}  // namespace lockstep
