#include "lockstep/comm/mesh/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/mesh/talk_times.h"
#include "lockstep/net/store/patience.h"
#include "lockstep/net/timeout_texts.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// How long the store may take to notice that a rank is gone whose connection to this one has ended.
constexpr milliseconds kStoreNotices{500};

/// How long it may take until the other ranks have reported what they do.
constexpr milliseconds kOthersTell{1000};

/// Most ranks that a message names one by one.
constexpr std::size_t kMostNamed = 8;

double seconds(Deadline::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

milliseconds age_of(Deadline::Clock::time_point since, Deadline::Clock::time_point now) {
  return std::chrono::duration_cast<milliseconds>(now - since);
}

bool needs_every_rank(OperationKind kind) {
  return kind == OperationKind::AllReduce || kind == OperationKind::AllGather || kind == OperationKind::ReduceScatter ||
         kind == OperationKind::AllToAll || kind == OperationKind::Barrier;
}

}  // namespace

Diagnosis::Diagnosis(const Membership& membership)
    : membership_(membership),
      states_(static_cast<std::size_t>(membership.world_size)),
      heard_(states_.size(), Clock::now()) {}

std::optional<GroupFailure> Diagnosis::look(const View& view, Connections& connections) {
  for (const Fingerprint& ended : view.ended) {
    if (needs_every_rank(ended.kind)) entered_by_all_ = ended;
  }
  if (view.lost) {
    return view.lost->kind() == MeshError::Kind::Part ? part_failed(view, *view.lost)
                                                      : connection_lost(view, *view.lost);
  }
  const auto now = Clock::now();
  for (const CurrentActivity& doing : view.current) {
    if (doing.deadline.passed()) return timed_out(doing, view);
  }
  if (!view.current.empty()) {
    if (auto failure = look_at_peers(view, connections, now)) return failure;
    const auto& patience = membership_.patience;
    if (patience && now - view.current.front().since >= patience->period()) patience->waiting();
  }
  if (auto failure = talk(view, now)) return failure;
  log_if_slow(view, now);
  return std::nullopt;
}

std::optional<GroupFailure> Diagnosis::look_at_peers(const View& view, Connections& connections,
                                                     Clock::time_point now) {
  const CurrentActivity& first = view.current.front();
  const bool sees_nothing = first.activity.coming_up || !connections.sees_losses();
  if (sees_nothing && now - first.since > kSlow && now >= next_loss_look_) {
    next_loss_look_ = now + loss_interval(membership_.world_size);
    // The end of a connection that is not made yet, or not watched, goes unnoticed here.
    if (auto failure = told_or_lost_any()) return failure;
  }
  // The end of a connection proves nothing by itself: a rank that has all it needs of an operation may leave while
  // others are still in it.
  const std::vector<int> peers = connections.lost_peers();
  return peers.empty() ? std::nullopt : told_or_lost(peers);
}

// Another rank's published failure, or the store's report that one of `peers` is gone.
std::optional<GroupFailure> Diagnosis::told_or_lost(const std::vector<int>& peers) {
  if (const auto told = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*told);
  for (const LostRank& lost : membership_.store->lost_ranks()) {
    if (lost.silent) continue;  // it is stopped, and may continue: it has until the deadline
    for (const int peer : peers) {
      if (membership_.peers[static_cast<std::size_t>(peer)].global_rank == lost.rank) {
        return lost_rank(peer, lost.cause);
      }
    }
  }
  return std::nullopt;
}

std::optional<GroupFailure> Diagnosis::told_or_lost_any() {
  std::vector<int> all(states_.size());
  std::iota(all.begin(), all.end(), 0);
  return told_or_lost(all);
}

// The part names its own ranks and operations. The whole group reports it better, if there is time to find out.
GroupFailure Diagnosis::part_failed(const View& view, const MeshError& error) {
  const Deadline deadline = Deadline::after(kOthersTell);
  const Deadline store_notices = Deadline::after(kStoreNotices);  // a rank that fails leaves the group before it ends
  try {
    for (;;) {
      tell(view);
      if (auto failure = told_or_lost_any()) return *failure;
      hear_all(Clock::now());
      if (auto text = find_disagreement(states_, membership_)) {
        return {GroupFailure::Kind::Disagreement, *text, "make the same calls in the same order on every rank"};
      }
      if (store_notices.passed()) {
        if (auto failure = left_early(view)) return *failure;
      }
      if (deadline.passed()) break;
      std::this_thread::sleep_for(5 * cause_interval(membership_.world_size));
    }
  } catch (const Error&) {  // the store is gone: only the part's error is left
  }
  return {GroupFailure::Kind::Lost, error.what(), "read the other ranks' messages too"};
}

GroupFailure Diagnosis::connection_lost(const View& view, const MeshError& error) {
  std::string detail;
  try {
    const Deadline deadline = Deadline::after(kStoreNotices);
    for (;;) {
      if (auto failure = told_or_lost(error.peers())) return *failure;
      if (deadline.passed()) break;
      std::this_thread::sleep_for(cause_interval(membership_.world_size));
    }
    hear_all(Clock::now());
    if (auto failure = left_early(view)) return *failure;
  } catch (const Error& store_error) {
    detail = "; the store does not answer either: " + store_error.happened();
  }
  if (error.peers().empty()) return unexplained(error);
  return {
      GroupFailure::Kind::Lost, fmt::format("lost the connection to {}{}", names(error.peers()), detail),
      "it ended, or left the group in the middle of an operation: read its own message, and check that all ranks make "
      "the same number of calls",
      first_of(error.peers())};
}

// A rank that is not lost but no longer takes part, and has not ended the operation that this rank is in.
std::optional<GroupFailure> Diagnosis::left_early(const View& view) const {
  for (const CurrentActivity& doing : view.current) {
    if (!doing.activity.collective()) continue;
    for (const int rank : not_arrived(states_, doing.activity.fingerprint.sequence)) {
      const auto& state = states_[static_cast<std::size_t>(rank)];
      if (!state || !state->left) continue;
      return GroupFailure{
          GroupFailure::Kind::Lost,
          fmt::format("{} left the group before {} ({})", name_of(membership_, rank), doing.activity.describe(),
                      describe_state(state)),
          "make the same number of calls on every rank: a loop that ends earlier on one of them, such as "
          "one over fewer batches, leaves the others waiting",
          first_of({rank})};
    }
  }
  return std::nullopt;
}

GroupFailure Diagnosis::unexplained(const MeshError& error) const {
  if (error.kind() == MeshError::Kind::Lost && !error.peers().empty()) {
    return {GroupFailure::Kind::Lost, "lost the connection to " + names(error.peers()), "read that rank's own message",
            first_of(error.peers())};
  }
  if (error.kind() == MeshError::Kind::Timeout) {
    return {
        GroupFailure::Kind::Timeout,
        "the operation did not end in time, and the store does not answer: the process that serves it (rank 0, or the "
        "launcher) is stopped or cut off",
        fmt::format("look at that process; if it is only slow, {}", kRaiseTimeout)};
  }
  return {GroupFailure::Kind::Lost, fmt::format("the connections of this group ended ({})", error.what()),
          "read the other ranks' messages"};
}

GroupFailure Diagnosis::lost_rank(int rank, const std::string& cause) const {
  return {GroupFailure::Kind::Lost, fmt::format("lost {}: {} ({})", name_of(membership_, rank), cause, last_of(rank)),
          "read that rank's own message: it failed first", first_of({rank})};
}

std::string Diagnosis::last_of(int rank) const {
  const auto& state = states_[static_cast<std::size_t>(rank)];
  if (!entered_by_all_) return describe_state(state);
  bool told_newer = false;
  if (state && !state->ended.empty()) told_newer = state->ended.back().sequence > entered_by_all_->sequence;
  for (const Activity& activity : state ? state->current : std::vector<Activity>()) {
    told_newer = told_newer || !activity.collective() || activity.fingerprint.sequence > entered_by_all_->sequence;
  }
  if (told_newer) return describe_state(state);
  return fmt::format("the last that it is known to have entered is {}", entered_by_all_->describe());
}

GroupFailure Diagnosis::aborted(const std::string& reason) const {
  return {GroupFailure::Kind::Aborted, fmt::format("{}, by {}", reason, name_of(membership_, membership_.rank)),
          "build a new group, or end the job", first_of({membership_.rank})};
}

GroupFailure Diagnosis::publish(const GroupFailure& failure) {
  try {
    const std::string stands = membership_.store->compare_set(kFailureKey, "", failure.encode());
    return GroupFailure::decode(stands);
  } catch (const Error&) {
    return failure;  // the store is gone too; the other ranks find out by themselves
  }
}

GroupFailure Diagnosis::timed_out(const CurrentActivity& late, const View& view) {
  const auto now = Clock::now();
  std::string detail;
  int blamed = -1;
  try {
    if (const auto told = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*told);
    tell(view);
    hear_all(now);
    if (auto text = find_disagreement(states_, membership_)) {
      return {GroupFailure::Kind::Disagreement, *text, "make the same calls in the same order on every rank"};
    }
    detail = who_is_late(late, now, blamed);
  } catch (const Error& error) {
    detail = "the store does not answer: " + error.happened();
  }
  return {GroupFailure::Kind::Timeout,
          fmt::format("{} did not end in {:.1f} s: {}", late.activity.describe(), seconds(now - late.since), detail),
          fmt::format("read the log of the rank named; if it is only slow, {}",
                      late.activity.coming_up ? kRaiseJoinTimeout : kRaiseTimeout),
          blamed};
}

std::string Diagnosis::who_is_late(const CurrentActivity& late, Clock::time_point now, int& blamed) const {
  std::vector<int> suspects;
  std::string verb = "has not come";
  if (late.activity.coming_up) {
    for (int rank = 0; rank < membership_.world_size; ++rank) {
      if (!states_[static_cast<std::size_t>(rank)]) suspects.push_back(rank);
    }
  } else if (!late.activity.collective()) {
    const int peer = late.activity.fingerprint.root;
    suspects = {peer};
    verb = late.activity.fingerprint.kind == OperationKind::Send ? "has not received it" : "has not sent it";
  } else {
    suspects = not_arrived(states_, late.activity.fingerprint.sequence);
  }
  if (suspects.empty()) {
    const auto interval = talk_interval(age_of(late.since, now), membership_.world_size);
    const auto between = static_cast<int>(talks_between_hearing_all(membership_.world_size));
    const auto patience = 3 * between * interval + milliseconds(500);
    for (int rank = 0; rank < membership_.world_size; ++rank) {
      if (rank != membership_.rank && now - heard_[static_cast<std::size_t>(rank)] > patience) suspects.push_back(rank);
    }
    verb = "came, but has fallen silent";
  }
  if (suspects.empty()) return "every rank has come, so the network is slow, or was cut";
  blamed = first_of(suspects);
  const std::vector<LostRank> lost_ranks = membership_.store->lost_ranks();
  std::string text;
  for (std::size_t i = 0; i < suspects.size() && i < kMostNamed; ++i) {
    text += fmt::format("\n    {} {} ({})", name_of(membership_, suspects[i]), verb, last_of(suspects[i]));
    for (const LostRank& lost : lost_ranks) {
      const Peer& peer = membership_.peers[static_cast<std::size_t>(suspects[i])];
      if (lost.rank == peer.global_rank) text += ", " + lost.cause;
    }
  }
  if (suspects.size() > kMostNamed) text += fmt::format("\n    and {} more", suspects.size() - kMostNamed);
  return text;
}

int Diagnosis::first_of(const std::vector<int>& ranks) const {
  return ranks.empty() ? -1 : membership_.peers[static_cast<std::size_t>(ranks.front())].global_rank;
}

std::string Diagnosis::names(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + name_of(membership_, rank);
  return text;
}

}  // namespace lockstep
