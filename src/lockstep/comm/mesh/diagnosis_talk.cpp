// The reports that ranks exchange through the store while an operation is slow.
#include <algorithm>
#include <set>

#include "lockstep/base/log.h"
#include "lockstep/comm/mesh/diagnosis.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {
namespace {

std::string state_key(int rank) { return "mesh/state/" + std::to_string(rank); }

}  // namespace

std::optional<GroupFailure> Diagnosis::talk(const View& view, Clock::time_point now) {
  Clock::time_point oldest = now;
  for (const CurrentActivity& doing : view.current) oldest = std::min(oldest, doing.since);
  if (now - oldest < times_.slow()) {
    next_talk_ = {};
    talks_ = 0;
    const bool pause = view.current.empty() && !view.ended.empty() && view.ended.back().sequence + 1 != last_reported_;
    if (pause && now - view.last_end >= times_.slow()) publish_state(view);
    return std::nullopt;
  }
  if (now < next_talk_) return std::nullopt;
  next_talk_ = now + times_.between_talks(std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest));
  publish_state(view);
  if (const auto published = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*published);
  if (talks_++ % times_.talks_between_hearing_all() == 0) {
    read_all_states(now);
  } else {
    read_late_states(view, now);
  }
  if (auto failure = find_disagreement(states_, membership_)) return failure;
  return left_early(view);
}

void Diagnosis::leave(const View& view) { publish_state(view, true); }

void Diagnosis::publish_state(const View& view, bool left) {
  RankState state;
  state.left = left;
  state.beat = ++beat_;
  state.ended = view.ended;
  for (const CurrentActivity& doing : view.current) state.current.push_back(doing.activity);
  if (!view.ended.empty()) last_reported_ = view.ended.back().sequence + 1;
  membership_.store->set(state_key(membership_.rank), encode_state(state));
  states_[static_cast<std::size_t>(membership_.rank)] = std::move(state);
}

void Diagnosis::read_states(const std::vector<int>& ranks, Clock::time_point now) {
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

void Diagnosis::read_all_states(Clock::time_point now) {
  std::vector<int> others;
  for (int rank = 0; rank < membership_.world_size; ++rank) {
    if (rank != membership_.rank) others.push_back(rank);
  }
  read_states(others, now);
}

// Reads the states of the ranks for which this rank waits, as far as known. Ranks that have arrived do not change their
// state while they wait too.
void Diagnosis::read_late_states(const View& view, Clock::time_point now) {
  std::set<int> late;
  for (const CurrentActivity& doing : view.current) {
    if (doing.activity.is_group_start) continue;
    if (!doing.activity.collective()) {
      late.insert(doing.activity.fingerprint.root);
      continue;
    }
    for (const int rank : not_arrived(states_, doing.activity.fingerprint.sequence)) late.insert(rank);
  }
  late.erase(membership_.rank);
  if (!late.empty()) read_states({late.begin(), late.end()}, now);
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
  log_warning("{}",
              slow_operation_text(text_of(first.activity), std::chrono::duration<double>(now - first.since).count(),
                                  describe(late_ranks(first, now), /*over_network=*/true),
                                  membership_.patience ? membership_.patience->who_works() : ""));
}

}  // namespace lockstep
