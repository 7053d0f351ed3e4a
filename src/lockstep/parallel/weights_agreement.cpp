#include "lockstep/parallel/weights_agreement.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// FNV-1a, over words instead of bytes: for accidents, not for enemies.
std::uint64_t hash_of(const at::Tensor& parameter) {
  const at::Tensor values = parameter.detach().cpu().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(values.data_ptr());
  std::uint64_t hash = 14695981039346656037ULL;
  for (std::size_t done = 0; done < values.nbytes(); done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + done, std::min(sizeof(word), values.nbytes() - done));
    hash = (hash ^ word) * 1099511628211ULL;
    hash ^= hash >> 29;  // a word's high bits reach the low ones
  }
  return hash;
}

}  // namespace

void check_equal_weights(Communicator& communicator, const std::vector<NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(parameters.size());
  at::Tensor own = at::empty({count}, at::TensorOptions().dtype(at::kLong));
  at::Tensor all = at::empty({communicator.world_size() * count}, own.options());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t hash = hash_of(parameters[static_cast<std::size_t>(i)].tensor);
    std::memcpy(own.data_ptr<std::int64_t>() + i, &hash, sizeof(hash));
  }
  communicator.all_gather(all, own);
  const std::int64_t* hashes = all.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    for (int rank = 1; rank < communicator.world_size(); ++rank) {
      if (hashes[rank * count + i] == hashes[i]) continue;
      throw Error(
          fmt::format("parameter \"{}\" is not the same on rank {} as on rank 0, since a rank gave its parameters "
                      "other memory (torch::load or set_)",
                      parameters[static_cast<std::size_t>(i)].name, rank),
          communicator.membership().where() + ", DistributedDataParallel",
          "load the same file on every rank; or load before the module is wrapped, which sends rank 0's weights "
          "to all");
    }
  }
}

}  // namespace lockstep
