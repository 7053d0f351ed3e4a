#include "tests/simulation/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::simulation {
namespace {

// A process's end is noticed by a look every 10 ms, or by the end of a connection.
constexpr Time kSoonestNotice = microseconds(50);
constexpr Time kLatestNotice = milliseconds(20);

}  // namespace

Group::Group(Simulation& simulation, Network& network, Points& points, RankWorld world)
    : simulation_(simulation), network_(network), points_(points), world_(std::move(world)) {
  seats_.resize(world_.members.size());
  for (Seat& seat : seats_) {
    seat.received.resize(seats_.size());
    seat.ways.resize(seats_.size());
  }
}

// Peers are named after the simulated hosts' numbers.
int Group::host_of(int rank) const { return std::stoi(world_.members[static_cast<std::size_t>(rank)].host_id); }

std::optional<int> Group::first_missing(const Seat& seat) const {
  for (std::size_t from = 0; from < seats_.size(); ++from) {
    if (seat.received[from].count(seat.calls) == 0) return static_cast<int>(from);
  }
  return std::nullopt;
}

// Members tell the others which call they are in, and who times out first tells all. One that is in a call waits
// itself, so it is not late: what it sent, or waits for, stands still.
FailureCause Group::timeout_of(int rank, int missing) const {
  const Seat& seat = seats_[static_cast<std::size_t>(missing)];
  if (seat.failure && seat.failure->kind == FailureCause::Kind::Timeout) return *seat.failure;
  const bool is_heard_of = !network_.is_cut(host_of(rank)) && !network_.is_cut(host_of(missing));
  const bool waits = seat.is_in_call && seat.process->lives() && !seat.process->stands_still();
  if (waits && is_heard_of) return {FailureCause::Kind::Timeout, -1};
  return {FailureCause::Kind::Timeout, world_.members[static_cast<std::size_t>(missing)].global_rank};
}

void Group::deliver(int from, int to, std::uint64_t number, const Contribution& contribution) {
  Seat& seat = seats_[static_cast<std::size_t>(to)];
  seat.received[static_cast<std::size_t>(from)][number] = contribution;
  if (seat.process != nullptr && !first_missing(seat)) seat.process->wake(seat.park);
}

std::vector<Contribution> Group::take(Seat& seat) {
  std::vector<Contribution> all;
  for (auto& from : seat.received) {
    all.push_back(from.at(seat.calls));
    from.erase(seat.calls);
    if (all.back().call == all.front().call) continue;
    simulation_.fail(fmt::format("the members of world {} make different calls: {} and {}", world_.number,
                                 all.front().call, all.back().call));
  }
  return all;
}

void Group::raise(int rank) {
  const FailureCause cause = *seats_[static_cast<std::size_t>(rank)].failure;
  leave(rank, cause);
  const std::string what = fmt::format("world {} failed: {} {}", world_.number, to_string(cause.kind), cause.rank);
  if (cause.kind == FailureCause::Kind::Timeout) throw_caused(TimeoutError(what, "simulated group", "-"), cause);
  throw_caused(Error(what, "simulated group", "-"), cause);
}

std::vector<Contribution> Group::exchange(int rank, Process& process, Contribution mine, Time timeout) {
  points_.pass(process);
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  seat.process = &process;
  seat.is_in_call = true;
  const std::uint64_t number = ++seat.calls;
  mine.sent_at = simulation_.now();
  for (int to = 0; to < static_cast<int>(seats_.size()); ++to) {
    if (to == rank) {
      seat.received[static_cast<std::size_t>(rank)][number] = mine;
      continue;
    }
    const Time delay = network_.delay(process.host(), host_of(to)) + network_.held(process.host(), host_of(to));
    simulation_.after(seat.ways[static_cast<std::size_t>(to)].arrival(simulation_.now(), delay),
                      [this, rank, to, number, mine] { deliver(rank, to, number, mine); });
  }
  points_.pass(process);
  const Time deadline = simulation_.now() + timeout;
  for (;;) {
    const auto missing = first_missing(seat);
    // An engine may see an end before the last contribution, or after it.
    if (!missing && (!seat.failure || simulation_.random().chance(50))) break;
    if (!seat.failure && missing && simulation_.now() >= deadline) {
      if (!network_.allows_timeouts()) {
        simulation_.fail(fmt::format("{} waits for a timeout in {} of world {}, and nothing but kills has happened",
                                     process.name(), mine.call, world_.number));
      }
      seat.failure = timeout_of(rank, *missing);
    }
    if (seat.failure) raise(rank);
    seat.park = process.next_park();
    simulation_.after(deadline - simulation_.now(), [&process, park = seat.park] { process.wake(park); });
    process.park();
  }
  auto all = take(seat);
  seat.is_in_call = false;
  points_.pass(process);
  return all;
}

void Group::fail(int rank, const FailureCause& cause) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  if (seat.failure || seat.has_left) return;
  seat.failure = cause;
  if (seat.process != nullptr) seat.process->wake(seat.park);
}

void Group::abort(int rank) {
  fail(rank, {FailureCause::Kind::AbortedByPeer, world_.members[static_cast<std::size_t>(rank)].global_rank});
}

FailureCause Group::cause_of_leaving(int rank) const {
  const auto& failure = seats_[static_cast<std::size_t>(rank)].failure;
  if (failure) return *failure;
  return {FailureCause::Kind::PeerLeft, world_.members[static_cast<std::size_t>(rank)].global_rank};
}

void Group::leave(int rank, const FailureCause& cause) {
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  if (std::exchange(seat.has_left, true)) return;
  for (int other = 0; other < static_cast<int>(seats_.size()); ++other) {
    if (other == rank) continue;
    const Time delay = network_.delay(host_of(rank), host_of(other));
    const Time notice = simulation_.random().time(kSoonestNotice, kLatestNotice);
    simulation_.after(std::max(delay, notice), [this, other, cause] { fail(other, cause); });
  }
}

Group& Groups::of(const RankWorld& world) {
  auto& group = groups_[world.number];
  if (!group) {
    group = std::make_unique<Group>(simulation_, network_, points_, world);
    for (const auto& [number, cause] : ended_) {
      if (world.rank_of(number) >= 0) group->leave(world.rank_of(number), cause);
    }
  }
  if (encode(group->world()) != encode(world)) {
    simulation_.fail(fmt::format("two groups of world {} have different members", world.number));
  }
  return *group;
}

void Groups::note_end(int global_rank, const FailureCause& cause) {
  ended_.emplace(global_rank, cause);
  for (auto& each : groups_) {
    const int rank = each.second->world().rank_of(global_rank);
    if (rank >= 0) each.second->leave(rank, cause);
  }
}

}  // namespace lockstep::simulation
