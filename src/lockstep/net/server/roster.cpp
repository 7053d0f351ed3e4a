#include "lockstep/net/server/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/net/store/store_protocol.h"

namespace lockstep {
namespace {

constexpr std::size_t kNamed = 16;  // ranks that a message lists one by one

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kNamed; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

const Roster::Member* Roster::find(ConnectionId connection) const {
  const auto found = members_.find(connection);
  return found == members_.end() ? nullptr : &found->second;
}

std::optional<Roster::Member> Roster::remove(ConnectionId connection) {
  const auto found = members_.find(connection);
  if (found == members_.end()) return std::nullopt;
  Member member = std::move(found->second);
  members_.erase(found);
  const auto holder = holders_.find({member.generation, member.peer.global_rank});
  if (holder != holders_.end() && holder->second == connection) holders_.erase(holder);
  if (member.waiting) generations_[member.generation].waiting.erase(member.peer.global_rank);
  return member;
}

JoinOutcome Roster::fail(std::int64_t generation, JoinOutcome::Kind kind, const std::string& what,
                         const std::string& fix) {
  JoinOutcome outcome;
  outcome.kind = kind;
  outcome.what = what;
  outcome.fix = fix;
  const auto waiting = generations_[generation].waiting;  // a copy: remove changes it
  for (const auto& [rank, connection] : waiting) outcome.to.push_back(remove(connection)->request);
  return outcome;
}

JoinOutcome Roster::fail_all(RequestId id, const JoinRequest& request, const std::string& what,
                             const std::string& fix) {
  Generation& generation = generations_[request.generation];
  if (!generation.waiting.empty()) {
    Failure failure{what, fix, members_.at(generation.waiting.begin()->second).world_size, {request.self.global_rank}};
    for (const auto& [rank, connection] : generation.waiting) failure.told.insert(rank);
    if (static_cast<int>(failure.told.size()) < failure.world_size) generation.failure = std::move(failure);
  }
  JoinOutcome outcome = fail(request.generation, JoinOutcome::Kind::Failed, what, fix);
  outcome.to.push_back(id);
  return outcome;
}

std::optional<JoinOutcome> Roster::earlier_failure(RequestId id, const JoinRequest& request) {
  Generation& generation = generations_[request.generation];
  if (!generation.failure || !generation.failure->told.insert(request.self.global_rank).second) return std::nullopt;
  JoinOutcome outcome{JoinOutcome::Kind::Failed, {id}, {}, 0, generation.failure->what, generation.failure->fix};
  if (static_cast<int>(generation.failure->told.size()) >= generation.failure->world_size) generation.failure.reset();
  return outcome;
}

bool Roster::has_ranks_to_tell() const {
  return std::any_of(generations_.begin(), generations_.end(),
                     [](const auto& entry) { return entry.second.failure.has_value(); });
}

// Why the rank of `request` cannot join. All ranks that contradict each other get the error, because none can continue
// alone.
std::optional<JoinOutcome> Roster::objection(RequestId id, const JoinRequest& request) {
  const int rank = request.self.global_rank;
  if (request.world_size < 1 || request.world_size > kMaxWorldSize || rank < 0 || rank >= request.world_size) {
    return fail_all(id, request,
                    fmt::format("{} does not fit into a world of {}", describe(request.self), request.world_size),
                    fmt::format("give each process its own rank from 0 to world_size - 1; world_size is at most {}",
                                kMaxWorldSize));
  }
  const auto holder = holders_.find({request.generation, rank});
  if (holder != holders_.end()) {
    const Member& other = members_.at(holder->second);
    const std::string both = fmt::format("two processes claim rank {}: process {} on {}, and process {} on {}", rank,
                                         other.peer.pid, other.peer.host, request.self.pid, request.self.host);
    const std::string other_job = "if this is another job, choose another MASTER_PORT (--master-port) for it";
    const std::string own_rank = "give each process its own rank (RANK, --node-rank)";
    if (other.waiting) return fail_all(id, request, both, other_job + "; if it is one job, " + own_rank);
    // The first process's job already runs, and continues.
    return JoinOutcome{JoinOutcome::Kind::Failed,
                       {id},
                       {},
                       0,
                       both + ", whose job is complete already",
                       other_job + "; if that is an earlier one of yours, end its processes; else " + own_rank};
  }
  const auto& waiting = generations_[request.generation].waiting;
  if (!waiting.empty() && members_.at(waiting.begin()->second).world_size != request.world_size) {
    const Member& other = members_.at(waiting.begin()->second);
    return fail_all(id, request,
                    fmt::format("the ranks disagree on world_size: {} says {}, {} says {}", describe(other.peer),
                                other.world_size, describe(request.self), request.world_size),
                    "start all ranks with the same world_size (WORLD_SIZE, --nnodes, --nproc-per-node)");
  }
  return std::nullopt;
}

JoinOutcome Roster::join(RequestId id, const JoinRequest& request) {
  if (find(id.connection) != nullptr) {
    return {JoinOutcome::Kind::Failed, {id}, {}, 0, "this connection has joined already", "join once per connection"};
  }
  if (auto refused = objection(id, request)) return *refused;
  if (auto failed = earlier_failure(id, request)) return *failed;
  Generation& generation = generations_[request.generation];
  Member member;
  member.generation = request.generation;
  member.round = generation.rounds;
  member.world_size = request.world_size;
  member.request = id;
  member.peer = request.self;
  members_[id.connection] = member;
  holders_[{request.generation, request.self.global_rank}] = id.connection;
  generation.waiting[request.self.global_rank] = id.connection;
  if (static_cast<int>(generation.waiting.size()) < request.world_size) return {};
  return complete(request.generation);
}

JoinOutcome Roster::enter(RequestId id, std::int64_t generation, const Peer& self) {
  const auto refuse = [&](const std::string& what, const std::string& fix) {
    return JoinOutcome{JoinOutcome::Kind::Failed, {id}, {}, 0, what, fix};
  };
  if (find(id.connection) != nullptr) return refuse("this connection has joined already", "join once per connection");
  const auto found = generations_.find(generation);
  if (found == generations_.end() || found->second.rounds == 0) {
    return refuse(fmt::format("{} wants to take a lost rank's place, but the ranks have not met yet", describe(self)),
                  "start it after the ranks of its job have met");
  }
  if (holders_.count({generation, self.global_rank}) != 0) {
    return refuse(fmt::format("two processes claim rank {}", self.global_rank),
                  "give each process a number that no process of the job has had");
  }
  Member member;
  member.generation = generation;
  member.round = found->second.rounds - 1;
  member.request = id;
  member.waiting = false;
  member.peer = self;
  JoinOutcome outcome{JoinOutcome::Kind::Complete, {id}, {self}, member.round, "", ""};
  holders_[{generation, self.global_rank}] = id.connection;
  members_[id.connection] = std::move(member);
  return outcome;
}

void Roster::resume(std::int64_t generation) {
  int& rounds = generations_[generation].rounds;
  rounds = std::max(rounds, 1);
}

JoinOutcome Roster::complete(std::int64_t generation) {
  JoinOutcome outcome;
  outcome.kind = JoinOutcome::Kind::Complete;
  generations_[generation].failure.reset();
  outcome.round = generations_[generation].rounds++;
  for (const auto& [rank, connection] : std::exchange(generations_[generation].waiting, {})) {
    Member& member = members_.at(connection);
    member.waiting = false;
    outcome.to.push_back(member.request);
    outcome.peers.push_back(member.peer);
  }
  return outcome;
}

JoinOutcome Roster::give_up(RequestId id) {
  const Member* member = find(id.connection);
  if (member == nullptr || !member->waiting || member->request.request != id.request) return {};
  const auto& waiting = generations_[member->generation].waiting;
  std::vector<int> missing;
  for (int rank = 0; rank < member->world_size; ++rank) {
    if (waiting.count(rank) == 0) missing.push_back(rank);
  }
  const std::string what = fmt::format("{} did not arrive: {} of {} joined when {} reached its deadline",
                                       list_ranks(missing), waiting.size(), member->world_size, describe(member->peer));
  return fail(member->generation, JoinOutcome::Kind::TimedOut, what,
              "see whether the missing ranks were started and what they wrote; all must reach the same store in time");
}

}  // namespace lockstep
