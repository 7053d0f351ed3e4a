#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/slow_notice.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/comm/failure/late_ranks.h"
#include "lockstep/comm/mesh/activity.h"
#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/comm/mesh/talk_times.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Finds out, from this rank's view and through the store, why operations of a group do not end. For one thread; calls
/// the store, so each call may take as long as the store does.
///
/// talk_times.h describes the load on the store. From the other ranks' states it reads those of ranks that have not
/// arrived, in one request, and at intervals all of them.
class Diagnosis {
 public:
  /// Where the rank that finds a failure publishes it.
  static constexpr const char* kFailureKey = "mesh/failure";

  using Clock = Deadline::Clock;
  /// An operation in progress, with its start and its deadline.
  struct CurrentActivity {
    Activity activity;
    Clock::time_point since;
    Deadline deadline = Deadline::never();
  };
  /// A snapshot of this rank's operations.
  struct View {
    std::vector<CurrentActivity> current;
    std::vector<Fingerprint> ended;  ///< the last collectives that ended, newest last
    Clock::time_point last_end{};
    std::optional<MeshError> lost;  ///< the error that an operation met
  };

  explicit Diagnosis(const Membership& membership);

  /// Looks once, and reports to the others what they may need. Returns nothing if no failure is known, or if it is too
  /// early to decide.
  std::optional<GroupFailure> look(const View& view, Connections& connections);
  /// Reports to the others that this rank no longer takes part. @throws Error  if the store does not answer
  void leave(const View& view);
  GroupFailure aborted(const std::string& reason) const;
  /// Makes `failure` the one that all ranks throw, and returns it; returns the earlier one if there is one.
  GroupFailure publish(GroupFailure failure);
  /// For a caller that got no answer from `look` in time. Thread-safe.
  GroupFailure unexplained(const MeshError& error) const;

 private:
  std::optional<GroupFailure> look_at_peers(const View& view, Connections& connections, Clock::time_point now);
  std::optional<GroupFailure> published_or_lost(const View& view, const std::vector<int>& peers);
  GroupFailure connection_lost(const View& view, const MeshError& error);
  GroupFailure part_failed(const View& view, const MeshError& error);
  GroupFailure engine_failed(const View& view, const MeshError& error);
  GroupFailure engine_failure(const MeshError& error) const;
  GroupFailure explained(const View& view, const MeshError& error);
  std::optional<GroupFailure> published_or_lost_any(const View& view);
  std::optional<GroupFailure> left_early(const View& view) const;
  GroupFailure timed_out(const CurrentActivity& late, const View& view);
  LateRanks late_ranks(const CurrentActivity& late, Clock::time_point now) const;
  std::vector<int> silent_ranks(const CurrentActivity& late, Clock::time_point now) const;
  bool waits(int rank) const;
  std::optional<GroupFailure> talk(const View& view, Clock::time_point now);
  void publish_state(const View& view, bool left = false);
  void read_states(const std::vector<int>& ranks, Clock::time_point now);
  void read_all_states(Clock::time_point now);
  void read_late_states(const View& view, Clock::time_point now);
  void log_if_slow(const View& view, Clock::time_point now);
  std::vector<NamedRank> named(const std::vector<int>& ranks) const;
  std::string text_of(const Activity& activity) const;
  /// The operation that this rank is in; empty if it is in none.
  std::string operation_in(const View& view) const;
  /// What is known of a rank's calls: what it reported, or an operation that could not have ended here without it.
  std::string last_seen_of(int rank) const;

  const Membership membership_;
  const TalkTimes times_;
  GroupState states_;
  std::vector<Clock::time_point> heard_;       // by rank: when it last reported something new
  std::optional<Fingerprint> entered_by_all_;  // the newest operation that ended here and needs every rank
  std::uint64_t beat_ = 0;
  std::uint64_t last_reported_ = 0;  // 1 + the sequence number of the last reported end
  Clock::time_point next_talk_{};
  Clock::time_point next_loss_look_{};
  std::uint64_t talks_ = 0;         // reports since an operation became slow
  Clock::time_point slow_since_{};  // start of the operation that `notice_` is for
  std::optional<SlowNotice> notice_;
};

}  // namespace lockstep
