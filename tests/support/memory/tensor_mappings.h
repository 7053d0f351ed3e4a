// Lets the kernel's figures of this process's memory follow its tensors.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace lockstep {

/// From now on freed tensors go back to the kernel. Memory that earlier tests have freed would serve tensors again,
/// whatever the threshold, so all of it is taken.
inline void give_tensors_mappings() {
  constexpr std::size_t kThreshold = 64 << 10;
  constexpr std::size_t kMostBlocks = 1 << 15;  // more than any test leaves behind
  ::mallopt(M_MMAP_THRESHOLD, kThreshold);
  static std::vector<void*> taken;
  const std::size_t mapped = ::mallinfo2().hblks;
  while (::mallinfo2().hblks == mapped && taken.size() < kMostBlocks) taken.push_back(std::malloc(kThreshold));
}

}  // namespace lockstep
