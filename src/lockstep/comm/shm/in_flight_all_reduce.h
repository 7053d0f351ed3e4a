#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/comm/reduce/element_range.h"
#include "lockstep/comm/reduce/reduce.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/looks.h"
#include "lockstep/comm/shm/memory/allocations.h"
#include "lockstep/comm/shm/staged_all_reduce.h"

namespace lockstep::shm {

/// An all-reduce of this rank, from its start to its end.
struct InFlightAllReduce {
  enum class Way { Tiny, Slot };
  /// Queued: other ranks do not see it yet. Entered: they see it. The next three: all have entered, and all use this
  /// algorithm. Finished: this rank needs nothing of it any more.
  enum class Stage { Queued, Entered, InPlace, Small, Staged, Finished };

  Call call;
  Elements elements;
  Reduction reduction = Reduction::Sum;
  std::shared_ptr<const void> keep;         ///< what must live until the end
  std::shared_ptr<SymmetricBuffer> buffer;  ///< the buffer if the elements are in symmetric memory, or null

  Way way = Way::Slot;
  Stage stage = Stage::Queued;
  bool awaited = false;  ///< some thread waits for it, or has: its deadline runs
  Looks looks;           ///< polls whether it is over, while it is the oldest
  std::uint64_t tiny_number = 0;
  std::vector<std::byte*> copies;  ///< every rank's elements, once known
  std::uint64_t chunks_per_slice = 0;
  bool own_slice_taken = false;  ///< no chunk of this rank's slice is left to take
  std::optional<StagedAllReduce> staged;

  std::atomic<bool> over{false};
  std::exception_ptr failure;  ///< valid once over
  std::int64_t ended_ns = 0;   ///< likewise; 0 if no trace was on

  /// Ends it, in success or with the failure `why`.
  void end(std::exception_ptr why) {
    failure = std::move(why);
    staged.reset();
    keep.reset();
    buffer.reset();
    if (trace_recorder::is_recording()) ended_ns = trace_now_ns();
    over.store(true, std::memory_order_release);
  }
};

}  // namespace lockstep::shm
