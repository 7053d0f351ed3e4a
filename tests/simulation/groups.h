#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/net/worlds/world.h"
#include "tests/simulation/network.h"

namespace lockstep::simulation {

/// What a member gives to a collective call, and gets from each of the others.
struct Contribution {
  std::string call;  ///< equal on all members
  std::vector<std::int64_t> values;
  Time sent_at{0};
};

/// The connections of one world, with the failures of the library's engines: a member that ends or leaves is noticed by
/// each of the others after a while of its own, so a call can succeed on some members and fail on others.
class Group {
 public:
  Group(Simulation& simulation, Network& network, Points& points, RankWorld world);

  const RankWorld& world() const { return world_; }
  /// A collective call of member `rank`: waits for the contributions of all, and returns them by rank.
  /// @throws Caused<Error>  if a member is lost or has left; Caused<TimeoutError> if one does not arrive
  std::vector<Contribution> exchange(int rank, Process& process, Contribution mine, Time timeout);
  /// Member `rank` takes no part any more; the others fail with `cause`.
  void leave(int rank, const FailureCause& cause);
  /// Member `rank` itself ends the group.
  void abort(int rank);
  /// Why the group ended for member `rank`; else that it has left.
  FailureCause cause_of_leaving(int rank) const;

 private:
  struct Seat {
    Process* process = nullptr;
    std::uint64_t park = 0;
    std::uint64_t calls = 0;                                      // that this member has begun
    std::vector<std::map<std::uint64_t, Contribution>> received;  // by sender, by number of the call
    std::vector<OrderedWay> ways;                                 // to the others
    std::optional<FailureCause> failure;
    bool is_in_call = false;
    bool has_left = false;
  };

  void deliver(int from, int to, std::uint64_t number, const Contribution& contribution);
  void fail(int rank, const FailureCause& cause);
  std::optional<int> first_missing(const Seat& seat) const;
  FailureCause timeout_of(int rank, int missing) const;
  std::vector<Contribution> take(Seat& seat);
  [[noreturn]] void raise(int rank);
  int host_of(int rank) const;

  Simulation& simulation_;
  Network& network_;
  Points& points_;
  const RankWorld world_;
  std::vector<Seat> seats_;
};

/// The groups of a job, by the numbers of their worlds.
class Groups {
 public:
  Groups(Simulation& simulation, Network& network, Points& points)
      : simulation_(simulation), network_(network), points_(points) {}

  /// The group of `world`, for one of its members. Two worlds of one number with different members are a violation.
  Group& of(const RankWorld& world);
  /// A process ended, which those who are connected to it, or wait for it to connect, notice.
  void note_end(int global_rank, const FailureCause& cause);
  std::size_t count() const { return groups_.size(); }

 private:
  Simulation& simulation_;
  Network& network_;
  Points& points_;
  std::map<std::int64_t, std::unique_ptr<Group>> groups_;
  std::map<int, FailureCause> ended_;  // by number in the job
};

}  // namespace lockstep::simulation
