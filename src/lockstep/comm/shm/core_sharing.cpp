#include "lockstep/comm/shm/core_sharing.h"

#include <cstdint>

#include "lockstep/base/processor/cpu_mask.h"

namespace lockstep::shm {
namespace {

constexpr int kBitsPerWord = 64;

}  // namespace

int words_of_core_mask() {
  const auto mask = CpuMask::of(0);
  return (mask ? mask->room() : CPU_SETSIZE) / kBitsPerWord;
}

void publish_cores(Group& group, const std::vector<int>& cores) {
  Word* const mask = group.core_mask(group.rank());
  for (const int core : cores) {
    const int word = core / kBitsPerWord;
    if (word >= group.layout().core_mask_words()) continue;  // behind it are the masks of other ranks
    mask[word].fetch_or(std::uint64_t{1} << (core % kBitsPerWord));
  }
}

void share_cores(Group& group, int quota) {
  const int words = group.layout().core_mask_words();
  std::vector<std::uint64_t> masks;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const Word* const mask = group.core_mask(rank);
    for (int word = 0; word < words; ++word) masks.push_back(group.load(mask[word]));
  }
  group.set_spin_policy(choose_spin_policy(masks.data(), words, group.world_size(), quota));
  group.set_cores(cores_per_rank(masks.data(), words, group.world_size(), quota, group.rank()));
}

}  // namespace lockstep::shm
