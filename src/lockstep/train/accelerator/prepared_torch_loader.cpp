#include "lockstep/detail/train/prepared_torch_loader.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace detail {

void check_torch_loader(const LoaderShare& share, std::int64_t batch_size, bool has_fixed_order) {
  constexpr const char* where = "Accelerator::prepare";
  if (share.world_size == 1) return;
  if (!has_fixed_order) {
    throw Error(
        "the torch::data loader has enforce_ordering(false): ranks that read the same batches in different "
        "orders cannot share them out",
        where, "leave enforce_ordering as it is, or let a lockstep::TorchDataSampler give each rank its share");
  }
  if (share.split_batches && batch_size % share.world_size != 0) {
    throw Error(
        fmt::format("split_batches: a batch of {} cannot be split among {} ranks", batch_size, share.world_size), where,
        "make the batch size a multiple of the number of ranks");
  }
}

}  // namespace detail
}  // namespace lockstep
