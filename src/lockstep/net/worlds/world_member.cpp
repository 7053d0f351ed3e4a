#include "lockstep/net/worlds/world_member.h"

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// A rank's loss is on the store's list within milliseconds. If the list stays empty for this long, none is lost.
constexpr milliseconds kUntilTheStoreKnows{5000};
constexpr milliseconds kBetweenLooks{50};

bool may_be_lost_rank(const std::exception& error) {
  const FailureCause* const cause = cause_of(error);
  if (cause == nullptr) return false;
  return cause->is_consequence() || cause->kind == FailureCause::Kind::Timeout;
}

std::string what_happened(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.happened();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void require_lost_rank(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error)) throw;
  }
}

WorldMember::WorldMember(std::shared_ptr<Store> store, Peer self, RankWorld world, WorldPatience patience,
                         WorldLinks& links, std::int64_t era)
    : self_(std::move(self)),
      agreement_(std::make_shared<PrefixStore>(std::move(store), "worlds"), self_),
      world_(std::move(world)),
      patience_(patience),
      links_(links) {
  agreement_.begin_era(era);
}

// @return  false if the members have changed, or one of them is lost
bool WorldMember::connect() {
  const WorldMeeting meeting = agreement_.meet(world_, Deadline::after(patience_.timeout));
  for (const Peer& late : meeting.late) {
    log_info("{} did not arrive to form the next group, and is given up", describe(late));
    give_up(late.global_rank);
  }
  if (!meeting.is_complete) return false;
  try {
    links_.connect(world_);
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error) && dynamic_cast<const TimeoutError*>(&error) == nullptr) throw;
    log_info("the next group was not formed: {}", error.what());
    return false;
  }
  return true;
}

void WorldMember::form(RankWorld next) {
  links_.disconnect();
  for (world_ = std::move(next); !connect();) {
    // If nobody is lost, a connection failed: another attempt with the same members.
    try {
      world_ = agreement_.next(world_, false, false, Deadline::after(patience_.if_nobody_is_late));
    } catch (const TimeoutError&) {
      world_ = agreement_.next(world_, true, false, Deadline::after(kUntilTheStoreKnows));
    }
  }
  agreement_.heard_of(world_);
}

// Called while a StoreLostError is handled.
void WorldMember::follow_store() {
  for (;;) {
    links_.disconnect();
    std::optional<StoreMove> move;
    try {
      move = links_.follow_store();
      if (move) return form(first_in_new_store(*move));
    } catch (const StoreLostError& error) {
      log_info("the store that was to replace the job's store is lost, too: {}", error.happened());
      continue;
    }
    throw;
  }
}

RankWorld WorldMember::first_in_new_store(const StoreMove& move) {
  agreement_.begin_era(move.era);
  if (world_.members.empty()) return agreement_.wait_for_admission(Deadline::never());
  std::vector<Peer> late;
  RankWorld first = agreement_.call_roll(world_, move.roll, Deadline::after(patience_.timeout), late);
  for (const Peer& each : late) {
    log_info("{} did not arrive at the store that replaces the lost one, and is given up", describe(each));
    give_up(each.global_rank);
  }
  return first;
}

void WorldMember::join() {
  try {
    form(agreement_.wait_for_admission(Deadline::never()));
  } catch (const StoreLostError&) {
    follow_store();
  }
}

// A rank that stands still may wake up at any time. On this host it is ended, so that the launcher can replace it; on
// another one it finds that the others have continued without it.
void WorldMember::give_up(int global_rank) {
  agreement_.give_up(global_rank);
  const int rank = world_.rank_of(global_rank);
  if (rank < 0 || global_rank == self_.global_rank) return;
  const Peer& peer = world_.members[static_cast<std::size_t>(rank)];
  if (peer.host_id == self_.host_id && peer.pid > 1 && peer.pid != self_.pid) links_.end_process(peer.pid);
}

void WorldMember::recover(const std::exception_ptr& failure) {
  try {
    form(after(failure));
  } catch (const StoreLostError&) {
    follow_store();
  }
}

// The next world after a call of the present group has failed.
RankWorld WorldMember::after(const std::exception_ptr& failure) {
  RankWorld next = next_or_same(failure);
  if (next.members.size() == world_.members.size() && next.rank_of(self_.global_rank) == 0) {
    log_warning(
        "no rank is lost, and the connections do not work: the ranks make new connections, and repeat what failed: {}",
        what_happened(failure));
  }
  return next;
}

RankWorld WorldMember::next_or_same(const std::exception_ptr& failure) {
  Deadline until = Deadline::after(kUntilTheStoreKnows);
  bool may_repeat = repeats_ < kMostRepeats;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error)) throw;
    const FailureCause cause = *cause_of(error);
    const bool is_late = cause.kind == FailureCause::Kind::Timeout;
    if (is_late && cause.rank >= 0) give_up(cause.rank);
    if (is_late && cause.rank < 0) until = Deadline::after(patience_.if_nobody_is_late);
    // A rank that failed by itself may live for a while. One that failed because of a lost rank knew of it by the
    // store.
    if (cause.kind == FailureCause::Kind::AbortedByPeer) {
      until = Deadline::after(milliseconds(0));
      may_repeat = false;
    }
  }
  try {
    return agreement_.next(world_, false, false, until);
  } catch (const TimeoutError&) {
    if (!may_repeat) std::rethrow_exception(failure);
  }
  ++repeats_;
  return agreement_.next(world_, /*must_change=*/true, false, Deadline::after(kUntilTheStoreKnows));
}

bool WorldMember::someone_waits() {
  const auto now = std::chrono::steady_clock::now();
  if (world_.rank_of(self_.global_rank) != 0 || now - looked_at_ < kBetweenLooks) return false;
  looked_at_ = now;
  return agreement_.someone_waits(world_);
}

void WorldMember::admit() {
  try {
    form(agreement_.next(world_, true, true, Deadline::after(kUntilTheStoreKnows)));
  } catch (const StoreLostError&) {
    follow_store();
  }
}

void WorldMember::close() {
  try {
    agreement_.close();
  } catch (const StoreLostError& error) {
    log_info("the end of the training is not stored: {}", error.happened());
  }
}

void WorldMember::leave() {
  try {
    agreement_.leave();
  } catch (const StoreLostError& error) {
    log_info("the end of this rank is not stored: {}", error.happened());
  }
}

}  // namespace lockstep
