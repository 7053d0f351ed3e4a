#include "lockstep/net/server/store_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/net/store/answer_fields.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
void StoreService::answer(RequestId id, StoreStatus status, std::string_view fields) {
  WireWriter message;
  message.u64(id.request);
  message.u8(static_cast<std::uint8_t>(status));
  message.raw(fields);
  send_(id.connection, message.bytes());
}

void StoreService::fail(RequestId id, StoreStatus status, const std::string& what, const std::string& fix) {
  answer(id, status, text_field(what.substr(0, kMaxMessageBytes)) + text_field(fix.substr(0, kMaxMessageBytes)));
}

void StoreService::handle(ConnectionId connection, std::string_view frame, Clock::time_point now) {
  ++requests_;
  if (const auto heard = heard_.find(connection); heard != heard_.end()) {
    heard->second.last = now;
    if (std::exchange(heard->second.silent, false)) {
      if (const Roster::Member* member = roster_.find(connection)) {
        lost_.heard_again(member->generation, member->round, member->peer.global_rank);
      }
    }
  }
  wills_.heard(connection, now);
  WireReader fields(frame);
  const auto operation = static_cast<StoreOperation>(fields.u8());
  const RequestId id{connection, fields.u64()};
  if (operation == StoreOperation::Join || operation == StoreOperation::Enter) heard_[connection].last = now;
  try {
    dispatch(id, operation, fields, now);
  } catch (const WireError&) {
    throw;
  } catch (const Error& error) {
    fail(id, StoreStatus::Failed, error.happened(), error.fix());
  }
}

void StoreService::dispatch(RequestId id, StoreOperation operation, WireReader& fields, Clock::time_point now) {
  switch (operation) {
    case StoreOperation::Set:
      return handle_set(id, fields);
    case StoreOperation::Get:
      return handle_get(id, fields);
    case StoreOperation::TryGet:
      return handle_try_get(id, fields);
    case StoreOperation::TryGetAll:
      return handle_try_get_all(id, fields);
    case StoreOperation::Add:
      return handle_add(id, fields);
    case StoreOperation::CompareSet:
      return handle_compare_set(id, fields);
    case StoreOperation::Delete:
      return handle_delete(id, fields);
    case StoreOperation::Wait:
      return handle_wait(id, fields);
    case StoreOperation::NumKeys:
      fields.end();
      return answer(id, StoreStatus::Ok, number_field(table_.size()));
    case StoreOperation::LostRanks:
      fields.end();
      return answer(id, StoreStatus::Ok, lost_field(lost_ranks_seen_by(id.connection)));
    case StoreOperation::Join:
      return handle_join(id, fields);
    case StoreOperation::Enter:
      return handle_enter(id, fields);
    case StoreOperation::Leave:
      return handle_leave(id, fields);
    case StoreOperation::Push:
      return handle_push(id, fields);
    case StoreOperation::Will:
      return handle_will(id, fields, now);
    case StoreOperation::Heartbeat:
      fields.end();
      if (id.request != 0) answer(id, StoreStatus::Ok);
      return;
    case StoreOperation::Cancel:
      return handle_cancel(id, fields);
  }
  throw WireError(fmt::format("asked for unknown operation {}", static_cast<int>(operation)));
}

void StoreService::handle_leave(RequestId id, WireReader& fields) {
  fields.end();
  roster_.remove(id.connection);
  joiners_.erase(id.connection);
  heard_.erase(id.connection);
  wills_.take(id.connection);
  answer(id, StoreStatus::Ok);
}

void StoreService::handle_join(RequestId id, WireReader& fields) {
  JoinRequest request;
  request.generation = fields.i64();
  request.world_size = static_cast<int>(fields.u32());
  request.self = read_peer(fields);
  fields.end();
  joiners_.insert(id.connection);
  newest_generation_ = std::max(newest_generation_, request.generation);
  const JoinOutcome outcome = roster_.join(id, request);
  if (const Roster::Member* member = roster_.find(id.connection)) {
    lost_.replaced(member->generation, member->round, member->peer.global_rank);
  }
  publish(outcome);
}

void StoreService::handle_enter(RequestId id, WireReader& fields) {
  const std::int64_t generation = fields.i64();
  const Peer self = read_peer(fields);
  fields.end();
  joiners_.insert(id.connection);
  publish(roster_.enter(id, generation, self));
}

void StoreService::publish(const JoinOutcome& outcome) {
  if (outcome.kind == JoinOutcome::Kind::Waiting) return;
  if (outcome.kind == JoinOutcome::Kind::Complete) {
    WireWriter message;
    message.u32(static_cast<std::uint32_t>(outcome.round));
    message.u32(static_cast<std::uint32_t>(outcome.peers.size()));
    for (const Peer& peer : outcome.peers) write_peer(message, peer);
    for (const RequestId id : outcome.to) answer(id, StoreStatus::Ok, message.bytes());
    return;
  }
  const bool timed_out = outcome.kind == JoinOutcome::Kind::TimedOut;
  for (const RequestId id : outcome.to) {
    fail(id, timed_out ? StoreStatus::TimedOut : StoreStatus::Failed, outcome.what, outcome.fix);
  }
}

void StoreService::handle_cancel(RequestId id, WireReader& fields) {
  const RequestId cancelled{id.connection, fields.u64()};
  fields.end();
  if (waiters_.contains(cancelled)) {
    const std::vector<std::string> missing = waiters_.remove(cancelled, table_);
    const TimeoutError error = missing_keys_error(missing, "", lost_ranks_seen_by(id.connection));
    return fail(cancelled, StoreStatus::TimedOut, error.happened(), error.fix());
  }
  JoinOutcome outcome = roster_.give_up(cancelled);
  if (outcome.kind == JoinOutcome::Kind::TimedOut) {
    const auto lost = lost_.of(newest_generation_);
    if (!lost.empty()) outcome.what += "; lost meanwhile: " + describe(lost);
  }
  publish(outcome);
}

std::vector<LostRank> StoreService::lost_ranks_seen_by(ConnectionId connection) const {
  const Roster::Member* member = roster_.find(connection);
  return member != nullptr ? lost_.of(member->generation, member->round) : std::vector<LostRank>();
}

void StoreService::disconnected(ConnectionId connection, const std::string& cause) {
  waiters_.remove_all(connection);
  if (const auto will = wills_.take(connection)) carry_out(*will, cause);
  joiners_.erase(connection);
  heard_.erase(connection);
  if (const auto member = roster_.remove(connection)) {
    const LostRank lost{member->peer.global_rank, member->peer.host, cause};
    lost_.add(member->generation, member->round, lost, false);
  }
}

// One thread assigns all numbers of a store, so a number is never visible without its value.
std::int64_t StoreService::push(const std::string& queue, const std::string& value) {
  const std::int64_t number = table_.add(queue, 1);
  const std::string key = fmt::format("{}/{}", queue, number);
  table_.set(key, value);
  key_was_set(key);
  return number;
}

void StoreService::handle_push(RequestId id, WireReader& fields) {
  const std::string queue = fields.text(KeyTable::kMaxKeyBytes);
  const std::string value = fields.text(KeyTable::kMaxValueBytes);
  fields.end();
  answer(id, StoreStatus::Ok, number_field(push(queue, value)));
}

void StoreService::handle_will(RequestId id, WireReader& fields, Clock::time_point now) {
  Wills::Will will;
  will.queue = fields.text(KeyTable::kMaxKeyBytes);
  will.value = fields.text(kMaxMessageBytes);
  will.limit = std::chrono::milliseconds(fields.u32());
  fields.end();
  wills_.make(id.connection, std::move(will), now);
  answer(id, StoreStatus::Ok);
}

void StoreService::carry_out(const Wills::Will& will, const std::string& cause) {
  try {
    push(will.queue, will.value + cause);
  } catch (const Error& error) {
    log_warning("a lost client's last word was not stored: {}", error.happened());  // the table is full
  }
}

void StoreService::forget_generations_before(std::int64_t generation) {
  for (std::int64_t old = forgotten_before_; old < generation; ++old) {
    table_.erase_all(fmt::format("g{}.", old));
    lost_.forget(old);
  }
  forgotten_before_ = std::max(forgotten_before_, generation);
}

void StoreService::resume_generation(std::int64_t generation) {
  newest_generation_ = std::max(newest_generation_, generation);
  roster_.resume(generation);
}

void StoreService::check_heartbeats(Clock::time_point now, std::chrono::milliseconds limit) {
  for (const Wills::Will& will : wills_.take_silent(now)) {
    carry_out(will, fmt::format("{}{:.1f} s", kNotHeardOf, std::chrono::duration<double>(will.limit).count()));
  }
  for (auto& [connection, heard] : heard_) {
    const Roster::Member* member = roster_.find(connection);
    if (member == nullptr || heard.silent || now - heard.last <= limit) continue;
    heard.silent = true;
    const double seconds = std::chrono::duration<double>(now - heard.last).count();
    const LostRank lost{member->peer.global_rank, member->peer.host, fmt::format("no heartbeat for {:.1f} s", seconds),
                        /*silent=*/true};
    lost_.add(member->generation, member->round, lost, false);
  }
}

void StoreService::forgive(std::chrono::nanoseconds pause) {
  for (auto& [connection, heard] : heard_) heard.last += std::chrono::duration_cast<Clock::duration>(pause);
  wills_.forgive(pause);
}

void StoreService::mark_lost(std::int64_t generation, const LostRank& lost) {
  newest_generation_ = std::max(newest_generation_, generation);
  lost_.add(generation, LostList::kAnyRound, lost, true);
}

}  // namespace lockstep
