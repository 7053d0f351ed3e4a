// Processes that take the places of lost ranks whose loss the others survive.
#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/ranks/group_rank.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // between looks whether a new rank is a member

}  // namespace

const RankGroup::Rank& RankGroup::last_ended() const {
  const auto is_it = [&](const auto& each) { return each->process.pid == ends_.back().pid && each->ended; };
  return **std::find_if(ranks_.begin(), ranks_.end(), is_it);
}

void RankGroup::replace_last(int member) {
  RankPlace place = last_ended().place;
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
  look_at_ = Deadline::after(kLook);
  if (parts_.plan.warm_spares) prepare_at_ = Deadline::after(kSpareDelay);
}

void RankGroup::look_for_members() {
  look_at_ = Deadline::never();
  for (const auto& rank : ranks_) {
    if (rank->ended || rank->is_member) continue;
    rank->is_member = rank->has_announced_survival();
    if (!rank->is_member) {
      look_at_ = Deadline::after(kLook);
      continue;
    }
    log_warning("a new process (pid {}) has joined in the place of rank {}: {} ranks on this host", rank->process.pid,
                rank->place.rank, running_members());
  }
}

int RankGroup::running_members() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank->ended && rank->is_member; }));
}

bool RankGroup::a_member_succeeded() const {
  return std::any_of(ends_.begin(), ends_.end(),
                     [](const RankEnd& end) { return end.was_member && end.status.success(); });
}

bool RankGroup::last_announced_survival() const {
  const Rank& rank = last_ended();
  return !rank.is_member || rank.has_announced_survival();
}

}  // namespace lockstep
