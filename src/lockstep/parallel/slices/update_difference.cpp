#include "lockstep/parallel/slices/update_difference.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/parallel/agreement/agreed_error.h"

namespace lockstep {

void throw_different_updates(Communicator& communicator, std::uint64_t update) {
  const auto number = static_cast<std::int64_t>(update);
  at::Tensor largest = at::tensor({number, ~number}, at::TensorOptions().dtype(at::kLong));
  communicator.all_reduce(largest, ReduceOp::Max);
  throw AgreedError(
      fmt::format("ranks are in different updates of run_shards: update {} here, {} and {} elsewhere", update,
                  static_cast<std::uint64_t>(~largest[1].item<std::int64_t>()),
                  static_cast<std::uint64_t>(largest[0].item<std::int64_t>())),
      communicator.membership().where() + ", run_shards",
      "make the same updates on every rank; if a rank catches an exception, let all ranks leave the update out");
}

}  // namespace lockstep
