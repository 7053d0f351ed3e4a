#include "lockstep/comm/nccl/nccl_marks.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace lockstep {

NcclMarks::NcclMarks(std::uint64_t own, int ranks) : ranks_(ranks) {
  const auto page_locked = at::TensorOptions().dtype(at::kLong).pinned_memory(true);
  sent_ = at::empty({1}, page_locked);
  sent_.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(own);
  received_ = at::empty({ranks}, page_locked);
}

void NcclMarks::write(const c10::cuda::CUDAStream& stream) {
  on_device_ = at::empty({1 + ranks_}, at::TensorOptions().dtype(at::kLong).device(stream.device()));
  on_device_.narrow(0, 0, 1).copy_(sent_, /*non_blocking=*/true);
}

ncclResult_t NcclMarks::begin_with(ncclComm_t communicator, cudaStream_t stream,
                                   const std::function<ncclResult_t()>& operation) {
  if (std::exchange(begun_, true)) return operation();
  std::int64_t* const own = on_device_.data_ptr<std::int64_t>();
  ncclGroupStart();
  ncclResult_t result = ncclAllGather(own, own + 1, 1, ncclInt64, communicator, stream);
  if (result == ncclSuccess || result == ncclInProgress) result = operation();
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

void NcclMarks::exchange_if_not_begun(NcclHandle& handle, const c10::cuda::CUDAStream& stream) {
  if (begun_) return;
  handle.call("ncclAllGather", [&](ncclComm_t communicator) {
    return begin_with(communicator, stream.stream(), [] { return ncclSuccess; });
  });
}

void NcclMarks::read() { received_.copy_(on_device_.narrow(0, 1, ranks_), /*non_blocking=*/true); }

std::vector<int> NcclMarks::different() const {
  const std::int64_t* const marks = received_.data_ptr<std::int64_t>();
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (marks[rank] != sent_.data_ptr<std::int64_t>()[0]) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace lockstep
