#include "tests/simulation/rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/store_errors.h"

namespace lockstep::simulation {
namespace {

constexpr Time kMostToConnect = milliseconds(10000);
// Without faults a step takes 9 ms at most on one host, 13 ms on several. A change takes some looks and messages.
constexpr Time kLongestStep = milliseconds(14);
constexpr Time kLongestChange = milliseconds(100);
constexpr Time kLongestMove = milliseconds(500);  // until launchers have told where the store is
constexpr std::int64_t kMostWorldsBefore = 12;    // in a store that was lost

}  // namespace

Rank::Rank(JobParts& job, Process& process, Peer self, RankWorld world)
    : job_(job),
      process_(process),
      store_(std::make_shared<SimulatedStore>(process, job.server(), job.points)),
      member_(store_, std::move(self), std::move(world),
              WorldPatience{std::chrono::duration_cast<milliseconds>(job.shape.timeout)}, *this, job.server().era()),
      state_(job.states.front()),
      was_member_(!member_.world().members.empty()) {
  store_->on_request([this] {
    if (!is_excused_) job_.requests[this->self().global_rank] = {job_.simulation.now(), store_->era()};
  });
}

void Rank::run() {
  try {
    if (!was_member_) {
      position_ = -1;
      try_to_enter();
      asked_at_ = job_.simulation.now();
      ++job_.asked;
      member_.join();
      was_member_ = true;
    } else {
      begin();
    }
    train();
    is_done_ = true;
    check_promptness();
    ++job_.gone;
    member_.close();
    member_.leave();
    has_finished_ = true;
    store_->finish(Deadline::never());
  } catch (const std::exception& error) {
    error_ = error.what();
  }
}

void Rank::move_store(SimulatedServer& server, const std::set<int>& roll) {
  store_->tell(server, roll);
  if (seat_.group != nullptr) seat_.group->abort(seat_.rank);
}

void Rank::excuse() {
  is_excused_ = true;
  job_.requests.erase(self().global_rank);
}

void Rank::end() {
  if (!is_done_) ++job_.gone;
  job_.requests.erase(self().global_rank);
  store_->end();
  const auto kind = has_finished_ ? FailureCause::Kind::PeerLeft : FailureCause::Kind::LostPeer;
  job_.groups.note_end(self().global_rank, {kind, self().global_rank});
}

// If nothing but kills has happened, nobody waits for a timeout.
void Rank::check_promptness() {
  const std::int64_t moves = era_of(member_.world().number);
  const std::int64_t worlds_here = member_.world().number - first_number_of(moves);
  const std::int64_t worlds = worlds_here + kMostWorldsBefore * moves;
  const Time longest = kLongestStep * job_.shape.steps + kLongestChange * worlds + kLongestMove * moves;
  if (job_.network.allows_timeouts()) return;
  check_thrift(worlds_here);
  if (job_.simulation.now() <= longest) return;
  job_.simulation.fail(fmt::format("{} steps in {} worlds took {} ms", job_.shape.steps, worlds + 1,
                                   std::chrono::duration_cast<milliseconds>(job_.simulation.now()).count()));
}

// Each end of a process, and each that asks to be let in, leads to one more world at most.
void Rank::check_thrift(std::int64_t worlds) {
  if (worlds <= job_.gone + job_.asked) return;
  job_.simulation.fail(fmt::format("{} worlds followed {} ends of processes and {} requests to be let in", worlds,
                                   job_.gone, job_.asked));
}

void Rank::train() {
  for (;;) {
    try {
      settle();
      bool lets_in = false;
      Time looked_at{0};
      while (!lets_in && position_ < job_.shape.steps) {
        update();
        looked_at = job_.simulation.now();
        lets_in = someone_waits();
      }
      if (lets_in && position_ < job_.shape.steps) {
        admission_ = Admission{member_.world(), looked_at};
        member_.admit();
        continue;
      }
      exchange("end", {});
      return;
    } catch (const Killed&) {
      throw;
    } catch (...) {
      member_.recover(std::current_exception());
    }
  }
}

// If the store is lost by now, the member enters the one that replaces it.
void Rank::try_to_enter() {
  try {
    store_->enter(self());
  } catch (const StoreLostError& error) {
    job_.simulation.note([&] { return process_.name() + " cannot enter: " + error.what(); });
  }
}

// Faults may hit the first connection, too.
void Rank::begin() {
  try {
    connect(member_.world());
  } catch (const Killed&) {
    throw;
  } catch (...) {
    member_.recover(std::current_exception());
  }
}

void Rank::leave(Seat& seat) {
  if (seat.group != nullptr) seat.group->leave(seat.rank, seat.group->cause_of_leaving(seat.rank));
  seat = {};
}

void Rank::disconnect() { leave(seat_); }

void Rank::check_world(const RankWorld& world) {
  if (world.number <= last_world_) {
    job_.simulation.fail(
        fmt::format("{} returns from world {} to world {}", process_.name(), last_world_, world.number));
  }
  last_world_ = world.number;
}

// All members had agreed to let others in, and none of them has gone since: so whoever had asked by then is let in.
void Rank::check_admission(const RankWorld& world) {
  for (const Peer& peer : world.members) job_.requests.erase(peer.global_rank);
  const auto admission = std::exchange(admission_, std::nullopt);
  if (!admission || world.number != admission->before.number + 1) return;
  const auto& before = admission->before.members;
  if (std::any_of(before.begin(), before.end(),
                  [&](const Peer& peer) { return world.rank_of(peer.global_rank) < 0; })) {
    return;
  }
  for (const auto& [number, request] : job_.requests) {
    if (request.era != era_of(world.number) || request.since > admission->agreed_at) continue;
    job_.simulation.fail(
        fmt::format("process {} had asked to be let in, and world {} is formed without it", number, world.number));
  }
}

void Rank::connect(const RankWorld& world) {
  check_world(world);
  check_admission(world);
  former_ = seat_;
  seat_ = {&job_.groups.of(world), world.rank_of(self().global_rank)};
  if (job_.connections_to_fail > 0 && job_.simulation.random().chance(50)) {
    --job_.connections_to_fail;
    job_.simulation.note([&] { return process_.name() + " cannot connect"; });
    disconnect();
    throw TimeoutError("a connection was not made in time", process_.name(), "-");
  }
  const Time timeout = std::min(job_.shape.timeout, kMostToConnect);
  seat_.group->exchange(seat_.rank, process_, {"connect", {}, Time(0)}, timeout);
  leave(former_);
  job_.simulation.note([&] {
    std::vector<int> members;
    for (const Peer& peer : world.members) members.push_back(peer.global_rank);
    return fmt::format("{} is rank {} of world {}: [{}]", process_.name(), seat_.rank, world.number,
                       fmt::join(members, " "));
  });
}

std::vector<Contribution> Rank::exchange(const std::string& call, std::vector<std::int64_t> values) {
  return seat_.group->exchange(seat_.rank, process_, {call, std::move(values), Time(0)}, job_.shape.timeout);
}

void Rank::settle() {
  const auto all = exchange("compare", {position_});
  std::vector<MemberPosition> members;
  for (const Contribution& each : all) members.push_back({each.values.front(), false});
  const Standing standing = standing_of(members);
  if (standing.newest < 0) {
    missed_state_ = true;
    throw Error("all ranks that had the training's state are lost", process_.name(), "resume from a checkpoint");
  }
  if (!standing.all_equal) receive_state(standing);
}

void Rank::receive_state(const Standing& standing) {
  const bool is_behind = position_ < standing.newest;
  const std::string call = fmt::format("state of {}", standing.source);
  const auto source = static_cast<std::size_t>(standing.source);
  exchange(call, {});
  if (is_behind) {
    position_ = -1;
    state_ = 0;
  }
  const auto all = exchange(call, {static_cast<std::int64_t>(state_)});
  if (!is_behind) return;
  state_ = static_cast<std::uint64_t>(all[source].values.front());
  position_ = standing.newest;
  job_.simulation.note([&] { return fmt::format("{} has the state of step {}", process_.name(), position_); });
}

void Rank::update() {
  process_.sleep(job_.simulation.random().time(milliseconds(1), milliseconds(8)));
  const auto count = static_cast<int>(member_.world().members.size());
  std::vector<std::int64_t> values{0};
  for (int shard = kShards * rank() / count; shard < kShards * (rank() + 1) / count; ++shard) {
    values.front() += gradient_of(position_, shard);
    values.push_back(shard);
  }
  const auto all = exchange(fmt::format("update {}", position_), std::move(values));
  check_update(all);
  std::int64_t gradients = 0;
  for (const Contribution& each : all) gradients += each.values.front();
  state_ = state_after(state_, position_, gradients);
  ++position_;
  member_.has_advanced();
  if (state_ != job_.states[static_cast<std::size_t>(position_)]) {
    job_.simulation.fail(
        fmt::format("{} has another state after step {} than the undisturbed training", process_.name(), position_));
  }
}

// Each shard once. A rank that stood still may end the one update in which it did, of which the others had sent their
// parts; then it must notice that there is a newer world.
void Rank::check_update(const std::vector<Contribution>& all) {
  std::vector<std::int64_t> shards;
  Time last_sent{0};
  for (const Contribution& each : all) {
    shards.insert(shards.end(), each.values.begin() + 1, each.values.end());
    last_sent = std::max(last_sent, each.sent_at);
  }
  bool is_whole = shards.size() == kShards;
  for (std::size_t i = 0; is_whole && i < shards.size(); ++i) is_whole = shards[i] == static_cast<std::int64_t>(i);
  if (!is_whole) {
    job_.simulation.fail(fmt::format("step {} is made of the shards [{}]", position_, fmt::join(shards, " ")));
  }
  const std::int64_t world = seat_.group->world().number;
  job_.first_update.emplace(world, job_.simulation.now());
  const auto newer = job_.first_update.upper_bound(world);
  const bool is_overtaken = newer != job_.first_update.end() && newer->second < last_sent;
  if (is_overtaken && std::exchange(was_overtaken_, true)) {
    job_.simulation.fail(fmt::format("world {} updates after world {} has", world, newer->first));
  }
}

bool Rank::someone_waits() {
  const auto all = exchange("flags", {member_.someone_waits() ? 1 : 0});
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.values.front() != 0; });
}

}  // namespace lockstep::simulation
