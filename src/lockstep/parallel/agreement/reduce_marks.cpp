#include "lockstep/parallel/agreement/reduce_marks.h"

#include <ATen/ops/from_blob.h>

namespace lockstep {

void reduce_marks(Communicator& communicator, std::vector<std::uint8_t>& marks) {
  if (communicator.world_size() == 1) return;
  at::Tensor all =
      at::from_blob(marks.data(), {static_cast<std::int64_t>(marks.size())}, at::TensorOptions().dtype(at::kByte));
  communicator.all_reduce(all, ReduceOp::Max);
}

}  // namespace lockstep
