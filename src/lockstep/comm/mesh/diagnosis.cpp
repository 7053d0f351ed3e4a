#include "lockstep/comm/mesh/diagnosis.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// How long the store may take to notice that a rank is gone whose connection to this one has ended.
constexpr milliseconds kStoreNotices{500};

/// How long it may take until the other ranks have reported what they do.
constexpr milliseconds kOthersReport{1000};

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
      times_(membership),
      states_(static_cast<std::size_t>(membership.world_size)),
      heard_(states_.size(), Clock::now()) {}

std::optional<GroupFailure> Diagnosis::look(const View& view, Connections& connections) {
  for (const Fingerprint& ended : view.ended) {
    if (needs_every_rank(ended.kind)) entered_by_all_ = ended;
  }
  if (view.lost) return explained(view, *view.lost);
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
  const bool sees_nothing = first.activity.is_group_start || !connections.sees_losses();
  if (sees_nothing && now - first.since > times_.slow() && now >= next_loss_look_) {
    next_loss_look_ = now + times_.between_loss_looks();
    // The end of a connection that is not made yet, or not watched, goes unnoticed here.
    if (auto failure = published_or_lost_any(view)) return failure;
  }
  // The end of a connection proves nothing by itself: a rank that has all it needs of an operation may leave while
  // others are still in it.
  const std::vector<int> peers = connections.lost_peers();
  return peers.empty() ? std::nullopt : published_or_lost(view, peers);
}

// Another rank's published failure, or the store's report that one of `peers` is gone.
std::optional<GroupFailure> Diagnosis::published_or_lost(const View& view, const std::vector<int>& peers) {
  if (const auto published = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*published);
  for (const LostRank& lost : membership_.store->lost_ranks()) {
    if (lost.silent) continue;  // it is stopped, and may continue: it has until the deadline
    for (const int peer : peers) {
      if (membership_.peers[static_cast<std::size_t>(peer)].global_rank == lost.rank) {
        return GroupFailure::rank_lost(operation_in(view), named_rank(membership_, peer), lost.cause,
                                       last_seen_of(peer));
      }
    }
  }
  return std::nullopt;
}

std::optional<GroupFailure> Diagnosis::published_or_lost_any(const View& view) {
  std::vector<int> all(states_.size());
  std::iota(all.begin(), all.end(), 0);
  return published_or_lost(view, all);
}

// The part names its own ranks and operations. The whole group reports it better, if there is time to find out.
GroupFailure Diagnosis::part_failed(const View& view, const MeshError& error) {
  const Deadline deadline = Deadline::after(kOthersReport);
  const Deadline store_notices = Deadline::after(kStoreNotices);  // a rank that fails leaves the group before it ends
  try {
    for (;;) {
      publish_state(view);
      if (auto failure = published_or_lost_any(view)) return *failure;
      read_all_states(Clock::now());
      if (auto failure = find_disagreement(states_, membership_)) return *failure;
      if (store_notices.passed()) {
        if (auto failure = left_early(view)) return *failure;
      }
      if (deadline.passed()) break;
      std::this_thread::sleep_for(5 * times_.between_cause_looks());
    }
  } catch (const Error&) {  // the store is gone: only the part's error is left
  }
  return GroupFailure::part_failed(error.what());
}

GroupFailure Diagnosis::explained(const View& view, const MeshError& error) {
  if (error.kind() == MeshError::Kind::Part) return part_failed(view, error);
  return error.kind() == MeshError::Kind::Failed ? engine_failed(view, error) : connection_lost(view, error);
}

// A library may fail because of a rank that ended, which is the better reason. It does not know which one that was.
GroupFailure Diagnosis::engine_failed(const View& view, const MeshError& error) {
  try {
    const Deadline store_notices = Deadline::after(kStoreNotices);
    for (;;) {
      if (auto failure = published_or_lost_any(view)) return *failure;
      if (store_notices.passed()) break;
      std::this_thread::sleep_for(times_.between_cause_looks());
    }
    read_all_states(Clock::now());
    if (auto failure = left_early(view)) return *failure;
  } catch (const Error&) {  // the store is gone: only the library's words are left
  }
  return engine_failure(error);
}

GroupFailure Diagnosis::engine_failure(const MeshError& error) const {
  const NamedRank here = named_rank(membership_, membership_.rank);
  return error.peers().empty() ? GroupFailure::engine_failed(here, error.what(), error.fix())
                               : GroupFailure::engine_lost(here, error.what(), error.fix());
}

GroupFailure Diagnosis::connection_lost(const View& view, const MeshError& error) {
  std::string detail;
  try {
    const Deadline deadline = Deadline::after(kStoreNotices);
    for (;;) {
      if (auto failure = published_or_lost(view, error.peers())) return *failure;
      if (deadline.passed()) break;
      std::this_thread::sleep_for(times_.between_cause_looks());
    }
    read_all_states(Clock::now());
    if (auto failure = left_early(view)) return *failure;
  } catch (const Error& store_error) {
    detail = "the store does not answer either: " + store_error.happened();
  }
  if (error.peers().empty()) return unexplained(error);
  return GroupFailure::connection_lost(operation_in(view), named(error.peers()), detail);
}

// A rank that is not lost but no longer takes part, and has not ended the operation that this rank is in.
std::optional<GroupFailure> Diagnosis::left_early(const View& view) const {
  for (const CurrentActivity& doing : view.current) {
    if (!doing.activity.collective()) continue;
    for (const int rank : not_arrived(states_, doing.activity.fingerprint.sequence)) {
      const auto& state = states_[static_cast<std::size_t>(rank)];
      if (!state || !state->left) continue;
      return GroupFailure::rank_left(text_of(doing.activity), named_rank(membership_, rank), last_seen_of(rank));
    }
  }
  return std::nullopt;
}

GroupFailure Diagnosis::unexplained(const MeshError& error) const {
  if (error.kind() == MeshError::Kind::Lost && !error.peers().empty()) {
    return GroupFailure::connection_lost("", named(error.peers()));
  }
  if (error.kind() == MeshError::Kind::Failed) return engine_failure(error);
  if (error.kind() == MeshError::Kind::Timeout) return GroupFailure::timed_out_without_store("", "");
  return GroupFailure::unexplained(error.what());
}

std::string Diagnosis::last_seen_of(int rank) const {
  const auto& state = states_[static_cast<std::size_t>(rank)];
  if (!entered_by_all_) return last_seen(state);
  bool reported_newer = false;
  if (state && !state->ended.empty()) reported_newer = state->ended.back().sequence > entered_by_all_->sequence;
  for (const Activity& activity : state ? state->current : std::vector<Activity>()) {
    if (activity.is_group_start) continue;  // reported before every operation of the group
    reported_newer =
        reported_newer || !activity.collective() || activity.fingerprint.sequence > entered_by_all_->sequence;
  }
  return reported_newer ? last_seen(state) : last_seen_entering(entered_by_all_->describe());
}

GroupFailure Diagnosis::aborted(const std::string& reason) const {
  return GroupFailure::aborted(named_rank(membership_, membership_.rank), reason);
}

GroupFailure Diagnosis::publish(GroupFailure failure) {
  failure.found_by = membership_.rank;
  try {
    const std::string stands = membership_.store->compare_set(kFailureKey, "", failure.encode());
    return GroupFailure::decode(stands);
  } catch (const Error&) {
    return failure;  // the store is gone too; the other ranks find out by themselves
  }
}

GroupFailure Diagnosis::timed_out(const CurrentActivity& late, const View& view) {
  const auto now = Clock::now();
  const double waited_s = seconds(now - late.since);
  const std::string operation = text_of(late.activity);
  try {
    if (const auto published = membership_.store->try_get(kFailureKey)) return GroupFailure::decode(*published);
    publish_state(view);
    read_all_states(now);
    if (auto failure = find_disagreement(states_, membership_)) return *failure;
    const LateRanks ranks = late_ranks(late, now);
    return late.activity.is_group_start ? GroupFailure::start_timed_out(operation, waited_s, ranks)
                                        : GroupFailure::timed_out(operation, waited_s, ranks, /*over_network=*/true);
  } catch (const Error& error) {
    return GroupFailure::timed_out_without_store(operation, error.happened());
  }
}

LateRanks Diagnosis::late_ranks(const CurrentActivity& late, Clock::time_point now) const {
  std::vector<int> suspects;
  std::string lacks = "has not arrived";
  if (late.activity.is_group_start) {
    for (int rank = 0; rank < membership_.world_size; ++rank) {
      if (!states_[static_cast<std::size_t>(rank)]) suspects.push_back(rank);
    }
  } else if (!late.activity.collective()) {
    suspects = {late.activity.fingerprint.root};
    const bool sends = late.activity.fingerprint.kind == OperationKind::Send;
    lacks = sends ? "has not received the message" : "has not sent the message";
  } else {
    suspects = not_arrived(states_, late.activity.fingerprint.sequence);
  }
  const std::vector<int> silent = silent_ranks(late, now);
  if (suspects.empty()) {
    suspects = silent;
    lacks = "has arrived, but has been silent since";
  }
  if (suspects.empty()) return {};
  const std::vector<LostRank> lost_ranks = membership_.store->lost_ranks();
  LateRanks ranks;
  for (const int rank : suspects) {
    const bool is_silent = std::find(silent.begin(), silent.end(), rank) != silent.end();
    ranks.push_back({named_rank(membership_, rank), lacks, last_seen_of(rank), waits(rank) && !is_silent});
    for (const LostRank& lost : lost_ranks) {
      if (lost.rank == ranks.back().rank.in_job) ranks.back().seen += "; " + lost.cause;
    }
  }
  return ranks;
}

bool Diagnosis::waits(int rank) const {
  const auto& state = states_[static_cast<std::size_t>(rank)];
  return state && !state->current.empty();
}

// Ranks that have reported nothing for longer than they should.
std::vector<int> Diagnosis::silent_ranks(const CurrentActivity& late, Clock::time_point now) const {
  const auto interval = times_.between_talks(age_of(late.since, now));
  const auto between = static_cast<int>(times_.talks_between_hearing_all());
  const auto patience = 3 * between * interval + milliseconds(500);
  std::vector<int> silent;
  for (int rank = 0; rank < membership_.world_size; ++rank) {
    if (rank != membership_.rank && now - heard_[static_cast<std::size_t>(rank)] > patience) silent.push_back(rank);
  }
  return silent;
}

std::vector<NamedRank> Diagnosis::named(const std::vector<int>& ranks) const {
  std::vector<NamedRank> all;
  for (const int rank : ranks) all.push_back(named_rank(membership_, rank));
  return all;
}

std::string Diagnosis::text_of(const Activity& activity) const {
  return activity.is_group_start ? start_of_group(membership_) : activity.describe();
}

std::string Diagnosis::operation_in(const View& view) const {
  return view.current.empty() ? "" : text_of(view.current.front().activity);
}

}  // namespace lockstep
