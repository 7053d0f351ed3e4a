#include "lockstep/checkpoint/replica_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/data/files/sha256.h"

namespace lockstep {

std::string tensors_checksum(const NamedTensors& tensors) {
  Sha256 digest;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.detach().cpu().contiguous();
    digest.update_sized(name);
    digest.update_sized(c10::toString(plain.scalar_type()));
    digest.update_number(plain.dim());
    for (const std::int64_t size : plain.sizes()) digest.update_number(size);
    digest.update({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
  }
  return digest.hex();
}

void check_replicas_equal(Communicator& communicator, const NamedTensors& tensors, const std::string& what) {
  const std::vector<std::string> sums = gather_texts(communicator, tensors_checksum(tensors));
  std::vector<std::size_t> others;
  for (std::size_t rank = 1; rank < sums.size(); ++rank) {
    if (sums[rank] != sums.front()) others.push_back(rank);
  }
  if (others.empty()) return;
  throw Error(fmt::format("{} differ from rank 0's (SHA-256 {}…) on rank {}", what, sums.front().substr(0, 12),
                          fmt::join(others, ", ")),
              communicator.membership().where(), "let every rank read the same files, and write to weights on none");
}

}  // namespace lockstep
