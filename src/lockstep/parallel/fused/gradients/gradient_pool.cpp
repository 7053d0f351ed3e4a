#include "lockstep/parallel/fused/gradients/gradient_pool.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace lockstep {
namespace {

struct Slot {
  at::ScalarType dtype;
  std::int64_t numel = 0;
};

}  // namespace

GradientPool::GradientPool(std::vector<FusedBucket>& buckets, at::ScalarType dtype, std::size_t slots,
                           GradientBuckets& gradients, Communicator& communicator) {
  std::vector<Slot> wanted;
  std::map<at::ScalarType, std::vector<std::size_t>> of_dtype;  // the slots of each dtype
  std::map<at::ScalarType, std::size_t> used;                   // buckets of each dtype so far
  for (const FusedBucket& bucket : buckets) {
    // fp64 weights keep gradients in fp64.
    const at::ScalarType own = gradients.parameter(bucket.parameters.front()).scalar_type();
    const at::ScalarType kind = own == at::ScalarType::Float ? dtype : own;
    std::vector<std::size_t>& known = of_dtype[kind];
    const std::size_t turn = used[kind]++;
    if (turn < slots) {
      known.push_back(wanted.size());
      wanted.push_back({kind});
    }
    const std::size_t slot = known[turn % slots];
    slots_.push_back(slot);
    wanted[slot].numel = std::max(wanted[slot].numel, gradients[bucket.index].message.numel());
  }
  occupants_.resize(wanted.size());
  std::vector<at::Tensor> memory;
  for (const Slot& slot : wanted) memory.push_back(communicator.allocate({slot.numel}, slot.dtype));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    gradients.lend(buckets[i].index, memory[slots_[i]]);
    buckets[i].gradients = gradients[buckets[i].index].memory;
  }
}

}  // namespace lockstep
