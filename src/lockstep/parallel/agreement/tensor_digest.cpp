#include "lockstep/parallel/agreement/tensor_digest.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

std::uint64_t tensor_digest(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  const auto* bytes = static_cast<const char*>(flat.data_ptr());
  const std::size_t count = flat.nbytes();
  std::uint64_t digest = mix_bits(count + 1);
  for (std::size_t begin = 0; begin < count; begin += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + begin, begin + sizeof(word) <= count ? sizeof(word) : count - begin);
    digest = mix_bits(digest + word);
  }
  return digest;
}

std::vector<TensorDifference> find_tensor_differences(Communicator& communicator,
                                                      const std::vector<at::Tensor>& tensors) {
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (communicator.world_size() == 1 || count == 0) return {};
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({count}, longs);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t digest = tensor_digest(tensors[static_cast<std::size_t>(i)]);
    std::memcpy(mine.data_ptr<std::int64_t>() + i, &digest, sizeof(digest));
  }
  at::Tensor all = at::empty({communicator.world_size() * count}, longs);
  communicator.all_gather(all, mine);
  const std::int64_t* first = all.data_ptr<std::int64_t>();
  std::vector<TensorDifference> differences;
  for (std::int64_t i = 0; i < count; ++i) {
    for (int rank = 1; rank < communicator.world_size(); ++rank) {
      if (first[rank * count + i] == first[i]) continue;
      differences.push_back({static_cast<std::size_t>(i), rank});
      break;
    }
  }
  return differences;
}

std::optional<TensorDifference> find_tensor_difference(Communicator& communicator,
                                                       const std::vector<at::Tensor>& tensors) {
  const auto all = find_tensor_differences(communicator, tensors);
  if (all.empty()) return std::nullopt;
  return all.front();
}

}  // namespace lockstep
