#include "lockstep/comm/shm/group.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/futex.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/shm/idle_work.h"

namespace lockstep::shm {
namespace {

using Clock = std::chrono::steady_clock;
// A lost peer is named at the latest after this time plus the time of one check of all peers.
constexpr std::chrono::milliseconds kCheckInterval(10);
// Time between two checks of something that no rank signals.
constexpr std::chrono::microseconds kLookInterval(50);
// How long a broken group waits for a rank that is inside another's memory. That rank needs microseconds, unless it is
// stopped.
constexpr std::chrono::seconds kWriterPatience(1);

template <std::size_t N>
void put_text(std::array<char, N>& to, const std::string& text) noexcept {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), length);
  to[length] = '\0';
}

template <std::size_t N>
std::string get_text(const std::array<char, N>& from) {
  std::string text(from.data(), ::strnlen(from.data(), N));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';  // whatever another process wrote, it stays one line
  }
  return text;
}

}  // namespace

Group::Group(std::shared_ptr<Mapping> block, const Layout& layout, int rank, Names names,
             std::unique_ptr<PeerWatch> watch)
    : block_(std::move(block)), layout_(layout), rank_(rank), names_(std::move(names)), watch_(std::move(watch)) {}

Group::~Group() { leave(); }

void Group::leave() noexcept {
  cell(rank_).state.store(static_cast<std::uint64_t>(RankState::Left), std::memory_order_seq_cst);
  if (load(header().sleepers) != 0) SleepProtocol<Group>(*this).wake_sleepers();
}

void Group::sleep_until(const Call& call, const Predicate& ready, const RankPredicate& missing) {
  Wait wait{Clock::now(), SlowNotice(call.deadline)};
  do {
    SleepProtocol<Group>(*this).sleep([&] { return ready() || broken() || call.deadline.passed(); });
  } while (!check(call, ready, missing, wait));
}

void Group::look_until(const Call& call, const Predicate& ready, const RankPredicate& missing) {
  Wait wait{Clock::now(), SlowNotice(call.deadline)};
  do {
    std::this_thread::sleep_for(kLookInterval);
  } while (!check(call, ready, missing, wait));
}

bool Group::check(const Call& call, const Predicate& ready, const RankPredicate& missing, Wait& wait) {
  if (ready()) return true;
  IdleWork::run_all();
  throw_if_broken();
  if (time_to_check(next_check_ns_)) check_peers(call, ready, missing);
  if (ready()) return true;
  check_time(call, missing, wait);
  return false;
}

void Group::check_time(const Call& call, const RankPredicate& missing, Wait& wait) {
  if (call.deadline.passed()) {
    fail_timeout(call, std::chrono::duration<double>(Clock::now() - wait.since).count(), missing);
  }
  warn_if_slow(call, missing, wait);
}

// A rank that lives and does not arrive: the log names it, and if it works for all ranks it may get more time.
void Group::warn_if_slow(const Call& call, const RankPredicate& missing, Wait& wait) {
  const auto waited = Clock::now() - wait.since;
  if (patience_ && waited >= patience_->period()) patience_->waiting();
  if (!logs_slow_waits_ || !wait.notice.due(waited)) return;
  const LateRanks late = late_ranks(call, missing);
  if (late.empty()) return;
  log_warning("{}", slow_operation_text(describe(call.announcement), std::chrono::duration<double>(waited).count(),
                                        lockstep::describe(late, /*over_network=*/false),
                                        patience_ ? patience_->who_works() : ""));
}

LateRanks Group::late_ranks(const Call& call, const RankPredicate& missing) const {
  LateRanks late;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || !missing(other)) continue;
    const bool is_in_it = last_entered(other) == call.announcement;
    late.push_back({named(other), is_in_it ? "has not done its part" : "has not arrived", last_seen(other)});
  }
  return late;
}

// Waits at most until the next check of the peers and the deadline.
void Group::wait_on(HalfWord& word, std::uint32_t seen) const { futex_wait(word, seen, kCheckInterval); }

void Group::wake_all(HalfWord& word) const { futex_wake_all(word); }

std::string Group::describe(const Announcement& announcement) const {
  if (announcement == kJoining) return names_.start;
  if (announcement == kAllocating) return "allocate";
  return names_.operation(announcement);
}

// One check per interval for all threads that share it.
bool Group::time_to_check(std::atomic<std::int64_t>& next_ns) noexcept {
  const std::int64_t now = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t next = next_ns.load(std::memory_order_relaxed);
  if (now < next) return false;
  const std::int64_t interval = std::chrono::nanoseconds(kCheckInterval).count();
  return next_ns.compare_exchange_strong(next, now + interval, std::memory_order_relaxed);
}

void Group::check_peers(const Call& call, const Predicate& ready, const RankPredicate& missing) {
  std::vector<LostPeer> lost;
  {
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    lost = watch_->lost();
  }
  const auto state = [this](int rank) { return static_cast<RankState>(load(cell(rank).state)); };
  for (const LostPeer& peer : lost) {
    if (peer.rank < 0 || peer.rank >= world_size() || peer.rank == rank_ || state(peer.rank) == RankState::Left)
      continue;
    if (ready()) return;  // the operation was complete before the peer ended
    fail(GroupFailure::rank_lost(describe(call.announcement), named(peer.rank), peer.cause, last_seen(peer.rank)));
  }
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || state(other) != RankState::Left || !missing(other) || ready()) continue;
    fail(GroupFailure::rank_left(describe(call.announcement), named(other), last_seen(other)));
  }
}

std::optional<Announcement> Group::last_entered(int rank) const {
  const std::uint64_t entered = load(cell(rank).entered);
  if (entered == 0) return std::nullopt;
  const SlotCell& slot_cell = slot(entered - 1, rank);
  Announcement announcement;
  for (std::size_t i = 0; i < announcement.words.size(); ++i) announcement.words[i] = load(slot_cell.announcement[i]);
  return announcement;
}

std::string Group::last_seen(int rank) const {
  if (load(cell(rank).setup_round) % 2 == 1) return last_seen_entering(describe(kAllocating));
  const std::optional<Announcement> last = last_entered(rank);
  return last ? last_seen_entering(describe(*last)) : kNothingEntered;
}

void Group::fail_timeout(const Call& call, double waited_s, const RankPredicate& missing) {
  const LateRanks late = late_ranks(call, missing);
  const std::string operation = describe(call.announcement);
  fail(call.announcement == kJoining ? GroupFailure::start_timed_out(operation, waited_s, late)
                                     : GroupFailure::timed_out(operation, waited_s, late, /*over_network=*/false));
}

void Group::fail_disagreement(const std::vector<Announcement>& by_rank) {
  std::vector<RankCall> calls;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    calls.push_back({named(static_cast<int>(rank)).name, describe(by_rank[rank])});
  }
  fail(GroupFailure::disagreement(calls));
}

void Group::fail_disagreement(const Announcement& mine, int other, const Announcement& theirs) {
  fail(GroupFailure::disagreement({{named(rank_).name, describe(mine)}, {named(other).name, describe(theirs)}}));
}

void Group::fail(const GroupFailure& failure) {
  break_group(failure);
  throw_broken();
}

void Group::break_group(const GroupFailure& failure) noexcept {
  {
    const std::lock_guard<std::mutex> lock(break_mutex_);
    if (broken() || record_written_) return;
    BreakRecord& record = cell(rank_).why;
    put_text(record.happened, failure.happened);
    put_text(record.fix, failure.fix);
    record.blamed.store(static_cast<std::uint32_t>(failure.blamed + 1), std::memory_order_relaxed);
    record.kind.store(static_cast<std::uint32_t>(failure.kind), std::memory_order_relaxed);
    record_written_ = true;
    WorkProtocol<Group>(*this).break_group();
  }
  SleepProtocol<Group>(*this).wake_sleepers();
}

void Group::abort(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  abort(ours != nullptr ? ours->happened() : error.what());
}

void Group::throw_broken() {
  await_idle_writers();
  const std::uint64_t who = header().broken.load(std::memory_order_seq_cst) - 1;
  if (who >= static_cast<std::uint64_t>(world_size())) {
    throw Error(fmt::format("the group's control block is damaged: it names rank {}", who), "", "restart the job");
  }
  const BreakRecord& record = cell(static_cast<int>(who)).why;
  GroupFailure failure;
  failure.kind = static_cast<GroupFailure::Kind>(record.kind.load(std::memory_order_relaxed));
  failure.happened = get_text(record.happened);
  failure.fix = get_text(record.fix);
  failure.blamed = static_cast<int>(record.blamed.load(std::memory_order_relaxed)) - 1;
  failure.found_by = static_cast<int>(who);
  failure.raise(rank_);
}

bool Group::is_lost(int rank) noexcept {
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  const std::vector<LostPeer> lost = watch_->lost();
  return std::any_of(lost.begin(), lost.end(), [rank](const LostPeer& peer) { return peer.rank == rank; });
}

// A rank that works right now may write to memory of this rank, which belongs to the caller again once this throws.
void Group::await_idle_writers() noexcept {
  const Deadline patience = Deadline::after(kWriterPatience);
  for (int other = 0; other < world_size(); ++other) {
    while (other != rank_ && WorkProtocol<Group>(*this).is_working(other) && !is_lost(other)) {
      if (patience.passed()) {
        if (detach_) detach_();
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace lockstep::shm
