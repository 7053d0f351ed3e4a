#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "lockstep/comm/shm/allocations.h"
#include "lockstep/comm/shm/elements.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/reduce.h"

namespace lockstep::shm {

/// An all-reduce of this rank, from its start to its end.
struct Started {
  enum class Way { Tiny, Slot };
  enum class Stage { Entered, InPlace, Finished };

  Call call;
  Elements elements;
  Reduction reduction = Reduction::Sum;
  std::shared_ptr<const void> keep;         ///< what must live until the end
  std::shared_ptr<SymmetricBuffer> buffer;  ///< where the elements lie in symmetric memory, or null

  Way way = Way::Slot;
  Stage stage = Stage::Entered;
  std::uint64_t tiny_number = 0;
  std::vector<std::byte*> copies;  ///< every rank's elements, once known
  std::uint64_t chunks_per_slice = 0;

  std::atomic<bool> over{false};
  std::exception_ptr failure;  ///< valid once over
};

}  // namespace lockstep::shm
