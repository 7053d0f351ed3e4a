// The reports that ranks exchange through the store while an operation is slow.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lockstep/base/log.h"
#include "lockstep/comm/mesh/diagnosis.h"
#include "lockstep/comm/mesh/talk_times.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {
namespace {

std::string state_key(int rank) { return "mesh/state/" + std::to_string(rank); }

}  // namespace

std::optional<GroupFailure> Diagnosis::talk(const View& view, Clock::time_point now) {
  Clock::time_point oldest = now;
  for (const CurrentActivity& doing : view.current) oldest = std::min(oldest, doing.since);
  if (now - oldest < kSlow) {
    next_talk_ = {};
    talks_ = 0;
    const bool pause = view.current.empty() && !view.ended.empty() && view.ended.back().sequence + 1 != told_last_;
    if (pause && now - view.last_end >= kSlow) tell(view);
    return std::nullopt;
  }
  if (now < next_talk_) return std::nullopt;
  next_talk_ =
      now + talk_interval(std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest), membership_.world_size);
  tell(view);
  if (const auto told = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*told);
  if (talks_++ % talks_between_hearing_all(membership_.world_size) == 0) {
    hear_all(now);
  } else {
    hear_the_late(view, now);
  }
  if (auto text = find_disagreement(states_, membership_)) {
    return GroupFailure{GroupFailure::Kind::Disagreement, *text, "make the same calls in the same order on every rank"};
  }
  return left_early(view);
}

void Diagnosis::leave(const View& view) { tell(view, true); }

void Diagnosis::tell(const View& view, bool left) {
  RankState state;
  state.left = left;
  state.beat = ++beat_;
  state.ended = view.ended;
  for (const CurrentActivity& doing : view.current) state.current.push_back(doing.activity);
  if (!view.ended.empty()) told_last_ = view.ended.back().sequence + 1;
  membership_.store->set(state_key(membership_.rank), encode_state(state));
  states_[static_cast<std::size_t>(membership_.rank)] = std::move(state);
}

void Diagnosis::hear(const std::vector<int>& ranks, Clock::time_point now) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(state_key(rank));
  const auto texts = membership_.store->try_get_all(keys);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!texts[i]) continue;
    RankState state = decode_state(*texts[i]);
    const auto rank = static_cast<std::size_t>(ranks[i]);
    auto& known = states_[rank];
    if (!known || known->beat != state.beat) heard_[rank] = now;
    known = std::move(state);
  }
}

void Diagnosis::hear_all(Clock::time_point now) {
  std::vector<int> others;
  for (int rank = 0; rank < membership_.world_size; ++rank) {
    if (rank != membership_.rank) others.push_back(rank);
  }
  hear(others, now);
}

// Reads the states of the ranks for which this rank waits, as far as known. Ranks that have arrived do not change their
// state while they wait too.
void Diagnosis::hear_the_late(const View& view, Clock::time_point now) {
  std::set<int> late;
  for (const CurrentActivity& doing : view.current) {
    if (doing.activity.coming_up) continue;
    if (!doing.activity.collective()) {
      late.insert(doing.activity.fingerprint.root);
      continue;
    }
    for (const int rank : not_arrived(states_, doing.activity.fingerprint.sequence)) late.insert(rank);
  }
  late.erase(membership_.rank);
  if (!late.empty()) hear({late.begin(), late.end()}, now);
}

// A long timeout must not look like a job that hangs. The states are as recent as the last exchange.
void Diagnosis::log_if_slow(const View& view, Clock::time_point now) {
  if (view.current.empty() || membership_.is_part()) return;
  const CurrentActivity& first = view.current.front();
  if (!notice_ || slow_since_ != first.since) {
    slow_since_ = first.since;
    notice_.emplace(Deadline::after(membership_.timeout));
  }
  if (!notice_->due(now - first.since)) return;
  int blamed = -1;  // no rank: the wait continues
  const std::string works = membership_.patience ? membership_.patience->who_works() : "";
  log_warning("still waiting in {}, {:.0f} s: {}{}", first.activity.describe(),
              std::chrono::duration<double>(now - first.since).count(), who_is_late(first, now, blamed),
              works.empty() ? "" : "\n    " + works);
}

}  // namespace lockstep
