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
#include "lockstep/net/timeout_texts.h"

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

constexpr std::size_t kNamesPerSide = 4;
constexpr const char* kSameCalls =
    "make the same calls, with the same sizes and dtypes, in the same order on every rank";

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
  tell_of_slow(call, missing, wait);
}

// A rank that lives and does not arrive: the log names it, and if it works for all ranks it may get more time.
void Group::tell_of_slow(const Call& call, const RankPredicate& missing, Wait& wait) {
  const auto waited = Clock::now() - wait.since;
  if (patience_ && waited >= patience_->period()) patience_->waiting();
  if (!logs_slow_waits_ || !wait.notice.due(waited)) return;
  const std::string who = who_is_missing(missing);
  if (who.empty()) return;
  const std::string works = patience_ ? patience_->who_works() : "";
  log_warning("still waiting for {} in {}, {:.0f} s{}", who, describe(call.announcement),
              std::chrono::duration<double>(waited).count(), works.empty() ? "" : ": " + works);
}

// "rank 3 on a, which last entered barrier #4; rank 5 ..."
std::string Group::who_is_missing(const RankPredicate& missing) const {
  std::string who;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || !missing(other)) continue;
    who += fmt::format("{}{}, which {}", who.empty() ? "" : "; ", names_.rank(other), last_entered(other));
  }
  return who;
}

// Waits at most until the next check of the peers and the deadline.
void Group::wait_on(HalfWord& word, std::uint32_t seen) const { futex_wait(word, seen, kCheckInterval); }

void Group::wake_all(HalfWord& word) const { futex_wake_all(word); }

std::string Group::describe(const Announcement& announcement) const {
  if (announcement == kJoining) return "joining the group";
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
    fail(BreakKind::Lost,
         fmt::format("{} lost {}: {}. It {}", describe(call.announcement), names_.rank(peer.rank), peer.cause,
                     last_entered(peer.rank)),
         fmt::format("read the log of rank {}; build a new group, or restart the job", peer.rank), peer.rank);
  }
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || state(other) != RankState::Left || !missing(other) || ready()) continue;
    fail(BreakKind::Left,
         fmt::format("{} waits for {}, which has left the group: its communicator is gone. It {}",
                     describe(call.announcement), names_.rank(other), last_entered(other)),
         fmt::format("make the same calls on every rank; read the log of rank {}", other), other);
  }
}

std::string Group::last_entered(int rank) const {
  if (load(cell(rank).setup_round) % 2 == 1) return "is in allocate";
  const std::uint64_t entered = load(cell(rank).entered);
  if (entered == 0) return "has entered no operation yet";
  const SlotCell& slot_cell = slot(entered - 1, rank);
  Announcement announcement;
  for (std::size_t i = 0; i < announcement.words.size(); ++i) announcement.words[i] = load(slot_cell.announcement[i]);
  return "last entered " + describe(announcement);
}

void Group::fail_timeout(const Call& call, double waited_s, const RankPredicate& missing) {
  const std::string who = who_is_missing(missing);
  std::string logs;
  int first = -1;
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank_ || !missing(other)) continue;
    if (first < 0) first = other;
    logs += fmt::format("{}{}", logs.empty() ? "" : ", ", other);
  }
  fail(BreakKind::Timeout,
       fmt::format("{} timed out after {:.1f} s, waiting for {}", describe(call.announcement), waited_s,
                   who.empty() ? "peers" : who),
       fmt::format("read the log of rank {}; if it is only slow, {}", logs.empty() ? "0" : logs,
                   call.announcement == kJoining ? kRaiseJoinTimeout : kRaiseTimeout),
       first);
}

void Group::fail_disagreement(const std::vector<Announcement>& by_rank) {
  std::string text;
  std::vector<bool> told(by_rank.size(), false);
  for (std::size_t first = 0; first < by_rank.size(); ++first) {
    if (told[first]) continue;
    std::string who;
    std::size_t number = 0;
    for (std::size_t rank = first; rank < by_rank.size(); ++rank) {
      if (by_rank[rank] != by_rank[first]) continue;
      told[rank] = true;
      if (++number <= kNamesPerSide) who += (number == 1 ? "" : ", ") + name_of(static_cast<int>(rank));
    }
    if (number > kNamesPerSide) who += fmt::format(" and {} more", number - kNamesPerSide);
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", who, number == 1 ? "calls" : "call",
                        describe(by_rank[first]));
  }
  fail(BreakKind::Mismatch, "the ranks disagree: " + text, kSameCalls);
}

void Group::fail_disagreement(const Announcement& mine, int other, const Announcement& theirs) {
  fail(BreakKind::Mismatch,
       fmt::format("the ranks disagree: {} calls {}; {} calls {}", name_of(rank_), describe(mine), name_of(other),
                   describe(theirs)),
       kSameCalls);
}

void Group::fail(BreakKind kind, const std::string& what, const std::string& fix, int blamed) {
  break_group(kind, what, fix, blamed);
  throw_broken();
}

void Group::break_group(BreakKind kind, const std::string& what, const std::string& fix, int blamed) noexcept {
  {
    const std::lock_guard<std::mutex> lock(break_mutex_);
    if (broken() || record_written_) return;
    BreakRecord& record = cell(rank_).why;
    put_text(record.what, what);
    put_text(record.fix, fix);
    record.blamed.store(static_cast<std::uint32_t>(blamed + 1), std::memory_order_relaxed);
    record.kind.store(static_cast<std::uint32_t>(kind), std::memory_order_relaxed);
    record_written_ = true;
    WorkProtocol<Group>(*this).break_group();
  }
  SleepProtocol<Group>(*this).wake_sleepers();
}

void Group::throw_broken() {
  await_idle_writers();
  const std::uint64_t who = header().broken.load(std::memory_order_seq_cst) - 1;
  if (who >= static_cast<std::uint64_t>(world_size())) {
    throw Error(fmt::format("the group's control block is damaged: it names rank {}", who), "", "restart the job");
  }
  const BreakRecord& record = cell(static_cast<int>(who)).why;
  const auto kind = static_cast<BreakKind>(record.kind.load(std::memory_order_relaxed));
  std::string what = get_text(record.what);
  if (static_cast<int>(who) != rank_) what += fmt::format(" (found by rank {})", who);
  const auto named = static_cast<int>(record.blamed.load(std::memory_order_relaxed)) - 1;
  const FailureCause cause = cause_of_break(kind, kind == BreakKind::Aborted ? static_cast<int>(who) : named);
  if (kind == BreakKind::Timeout) throw_caused(TimeoutError(what, "", get_text(record.fix)), cause);
  throw_caused(Error(what, "", get_text(record.fix)), cause);
}

FailureCause Group::cause_of_break(BreakKind kind, int blamed) const {
  FailureCause cause;
  if (blamed >= 0 && blamed < world_size()) cause.rank = names_.global_rank(blamed);
  switch (kind) {
    case BreakKind::Lost:
    case BreakKind::Left:
      cause.kind = FailureCause::Kind::LostPeer;
      break;
    case BreakKind::Timeout:
      cause.kind = FailureCause::Kind::Timeout;
      break;
    case BreakKind::Mismatch:
      cause.kind = FailureCause::Kind::Disagreement;
      break;
    case BreakKind::Aborted:
      cause.kind = FailureCause::Kind::AbortedByPeer;
      break;
    case BreakKind::None:
      break;
  }
  return cause;
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
