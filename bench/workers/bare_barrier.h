#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::bench {

/// A barrier of ranks that share memory, and nothing else: one flag for each rank, no deadline, no errors, no sleep.
class BareBarrier {
 public:
  using Word = std::atomic<std::uint64_t>;

  /// @param arrivals  by rank, each zero at first and in a cache line of its own; all ranks pass the same words
  /// @param shares_cores  there are more ranks than cores: a wait offers its core to the others
  BareBarrier(std::vector<Word*> arrivals, int rank, bool shares_cores)
      : arrivals_(std::move(arrivals)),
        mine_(*arrivals_.at(static_cast<std::size_t>(rank))),
        shares_cores_(shares_cores) {}

  /// Returns after all ranks have called it as many times as this one. Each rank then sees what the others stored
  /// before.
  void pass() {
    mine_.store(++round_, std::memory_order_release);
    for (const Word* arrival : arrivals_) {
      while (arrival->load(std::memory_order_acquire) < round_) {
        if (shares_cores_) ::sched_yield();
      }
    }
  }

 private:
  std::vector<Word*> arrivals_;
  Word& mine_;
  bool shares_cores_;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::bench
