#include "lockstep/comm/hierarchical/host_memories.h"

#include <algorithm>
#include <utility>

namespace lockstep {

void HostMemories::add(const at::Tensor& memory, const std::shared_ptr<SymmetricMemory>& parts, GatherLayout layout) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_gone = [](const Entry& entry) { return entry.parts.expired(); };
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), is_gone), entries_.end());
  entries_.push_back(
      {memory.data_ptr(), memory.nbytes(), parts, std::make_shared<const GatherLayout>(std::move(layout))});
}

HostMemories::Found HostMemories::find(const at::Tensor& tensor) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.begin != tensor.data_ptr() || entry.bytes != tensor.nbytes()) continue;
    if (auto parts = entry.parts.lock()) return {std::move(parts), entry.layout};
  }
  return {};
}

}  // namespace lockstep
