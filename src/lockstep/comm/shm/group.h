#pragma once

#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/slow_notice.h"
#include "lockstep/base/spin.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/comm/failure/late_ranks.h"
#include "lockstep/comm/failure/named_rank.h"
#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/memory/layout.h"
#include "lockstep/comm/shm/memory/memory_segment.h"
#include "lockstep/comm/shm/peers/peer_watch.h"
#include "lockstep/comm/shm/protocols/sleep_protocol.h"
#include "lockstep/comm/shm/protocols/work_protocol.h"
#include "lockstep/net/store/patience.h"

namespace lockstep::shm {

/// One operation of this rank, with what a wait for it needs.
struct Call {
  Announcement announcement;
  std::uint64_t sequence = 0;
  Deadline deadline = Deadline::never();
};

/// How ranks and operations are written in messages.
struct Names {
  std::function<NamedRank(int rank)> rank;
  std::function<std::string(const Announcement&)> operation;
  std::string start;  ///< the operation of ranks that connect the group
};

/// The ranks that share a control block: loads and stores on it, waits, and the end of the group.
///
/// This is the `Memory` of the protocols; the model checker runs them on another one. Thread-safe. Errors have no
/// `where`: the caller adds it.
class Group {
 public:
  Group(std::shared_ptr<Mapping> block, const Layout& layout, int rank, Names names, std::unique_ptr<PeerWatch> watch);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Reports to the others that this rank makes no more calls; they fail only if they still need it.
  void leave() noexcept;

  int rank() const { return rank_; }
  int world_size() const { return layout_.world_size(); }
  const Layout& layout() const { return layout_; }
  std::byte* at(std::size_t offset) const { return block_->data() + offset; }
  GroupHeader& header() const { return *reinterpret_cast<GroupHeader*>(block_->data()); }
  RankCell& cell(int rank) const { return *reinterpret_cast<RankCell*>(at(layout_.cell(rank))); }
  SlotCell& slot(std::uint64_t sequence, int rank) const {
    return *reinterpret_cast<SlotCell*>(at(layout_.slot(sequence, rank)));
  }
  /// layout().core_mask_words() words, a bit per core on which the rank may run.
  Word* core_mask(int rank) const { return reinterpret_cast<Word*>(at(layout_.core_mask(rank))); }
  std::uint64_t slots() const { return kSlots; }
  TinyBox& tiny_box(std::uint64_t number, int rank) const {
    return *reinterpret_cast<TinyBox*>(at(layout_.tiny_box(number, rank)));
  }
  std::string describe(const Announcement& announcement) const;
  NamedRank named(int rank) const { return names_.rank(rank); }

  // The protocols' access to memory.
  std::uint64_t load(const Word& word) const { return word.load(std::memory_order_seq_cst); }
  std::uint32_t load(const HalfWord& word) const { return word.load(std::memory_order_seq_cst); }
  void store(Word& word, std::uint64_t value) const { word.store(value, std::memory_order_release); }
  void store_in_order(Word& word, std::uint64_t value) const { word.store(value, std::memory_order_seq_cst); }
  std::uint64_t fetch_add(Word& word, std::uint64_t value) const {
    return word.fetch_add(value, std::memory_order_seq_cst);
  }
  std::uint32_t fetch_add(HalfWord& word, std::uint32_t value) const {
    return word.fetch_add(value, std::memory_order_seq_cst);
  }
  bool compare_exchange(Word& word, std::uint64_t& expected, std::uint64_t desired) const {
    return word.compare_exchange_strong(expected, desired, std::memory_order_seq_cst);
  }
  void write_payload(TinyBox& box, const std::byte* data, std::size_t bytes) const {
    if (bytes != 0) std::memcpy(box.payload.data(), data, bytes);
  }
  void wait_on(HalfWord& word, std::uint32_t seen) const;
  void wake_all(HalfWord& word) const;
  template <class Complete>
  void publish(Word& word, std::uint64_t value, Complete&& complete) {
    SleepProtocol<Group>(*this).publish(word, value, complete);
  }
  /// Returns once `ready()`, which must stay true from then on. `missing(rank)` names the ranks for which it waits.
  /// @throws Error  if the group ends, or if this wait ends it because a missing rank is lost or has left, or the
  /// deadline passes
  template <class Ready, class Missing>
  void await(const Call& call, Ready&& ready, Missing&& missing) {
    Spin spin(spin_policy_);
    do {
      if (ready()) return;
      throw_if_broken();
    } while (spin.again());
    sleep_until(call, ready, missing);
  }
  /// Like `await`, if no other rank wakes this one: it checks repeatedly, with short pauses.
  template <class Ready, class Missing>
  void await_without_bell(const Call& call, Ready&& ready, Missing&& missing) {
    Spin spin(spin_policy_);
    do {
      if (ready()) return;
      throw_if_broken();
    } while (spin.again());
    look_until(call, ready, missing);
  }
  /// One wait that did not end at once.
  struct Wait {
    std::chrono::steady_clock::time_point since;
    SlowNotice notice;
  };
  /// For a rank that computes and does not wait: checks at intervals whether the missing ranks still live.
  /// @param wait  not null: the caller polls instead of waiting, and the polling ends at the call's deadline
  /// @throws Error  if the group has ended, or if this call ends it, as `await` does
  template <class Ready, class Missing>
  void look_at_peers(const Call& call, Ready&& ready, Missing&& missing, Wait* wait = nullptr) {
    throw_if_broken();
    if (!time_to_check(next_look_ns_)) return;
    check_peers(call, ready, missing);
    if (wait != nullptr && !ready()) check_time(call, missing, *wait);
  }
  /// This rank touches memory of other ranks only between these two calls: a rank that leaves a broken group waits for
  /// it.
  void begin_work() {
    if (!WorkProtocol<Group>(*this).begin()) throw_broken();
  }
  void end_work() { WorkProtocol<Group>(*this).end(); }

  bool broken() const { return header().broken.load(std::memory_order_seq_cst) != 0; }
  void throw_if_broken() {
    if (broken()) throw_broken();
  }
  /// Ends the group for all ranks, unless it has already ended, and throws the reason.
  [[noreturn]] void fail(const GroupFailure& failure);
  /// Ends the group without throwing.
  void break_group(const GroupFailure& failure) noexcept;
  /// Ends the group because this rank cannot continue.
  void abort(const std::string& reason) { break_group(GroupFailure::aborted(named(rank_), reason)); }
  void abort(const std::exception& error);
  /// Call it after the group has ended. Returns when no other rank touches memory of this one any more.
  void await_idle_writers() noexcept;
  /// Names both sides of a disagreement, after all ranks have entered: which rank runs which operation.
  [[noreturn]] void fail_disagreement(const std::vector<Announcement>& by_rank);
  /// Names both sides of a disagreement between two ranks.
  [[noreturn]] void fail_disagreement(const Announcement& mine, int other, const Announcement& theirs);
  /// `detach` is called if a stopped rank may still write to this rank's memory after the end of the group.
  void on_stuck_writer(std::function<void()> detach) { detach_ = std::move(detach); }
  void set_spin_policy(const SpinPolicy& policy) { spin_policy_ = policy; }
  bool ranks_share_cores() const { return spin_policy_.spin.count() == 0; }
  /// `patience` gets a report of each wait that lasts; null: no reports. @param logs  whether this group logs waits
  /// that last
  void set_patience(std::shared_ptr<Patience> patience, bool logs) {
    patience_ = std::move(patience);
    logs_slow_waits_ = logs;
  }
  /// Cores for this rank alone; 0 if ranks share them.
  int cores() const { return cores_; }
  void set_cores(int cores) { cores_ = cores; }

 private:
  using Predicate = std::function<bool()>;
  using RankPredicate = std::function<bool(int)>;

  void sleep_until(const Call& call, const Predicate& ready, const RankPredicate& missing);
  void look_until(const Call& call, const Predicate& ready, const RankPredicate& missing);
  /// True once `ready`. Throws if the wait cannot continue.
  bool check(const Call& call, const Predicate& ready, const RankPredicate& missing, Wait& wait);
  /// Throws if the deadline has passed, and logs a wait that lasts.
  void check_time(const Call& call, const RankPredicate& missing, Wait& wait);
  void warn_if_slow(const Call& call, const RankPredicate& missing, Wait& wait);
  LateRanks late_ranks(const Call& call, const RankPredicate& missing) const;
  void check_peers(const Call& call, const Predicate& ready, const RankPredicate& missing);
  [[noreturn]] void fail_timeout(const Call& call, double waited_s, const RankPredicate& missing);
  static bool time_to_check(std::atomic<std::int64_t>& next_ns) noexcept;
  [[noreturn]] void throw_broken();
  bool is_lost(int rank) noexcept;
  /// The operation that the rank entered last; nothing if it has not entered any.
  std::optional<Announcement> last_entered(int rank) const;
  std::string last_seen(int rank) const;

  std::shared_ptr<Mapping> block_;
  Layout layout_;
  int rank_;
  Names names_;
  std::unique_ptr<PeerWatch> watch_;
  std::mutex watch_mutex_;
  std::mutex break_mutex_;
  SpinPolicy spin_policy_;
  int cores_ = 0;
  std::shared_ptr<Patience> patience_;
  bool logs_slow_waits_ = true;
  std::function<void()> detach_;
  std::atomic<std::int64_t> next_check_ns_{0};  // for all waits together
  std::atomic<std::int64_t> next_look_ns_{0};   // for look_at_peers
  bool record_written_ = false;                 // guarded by break_mutex_
};

}  // namespace lockstep::shm
