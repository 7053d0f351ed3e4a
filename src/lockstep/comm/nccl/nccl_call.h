#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "lockstep/comm/nccl/nccl_handle.h"
#include "lockstep/comm/nccl/nccl_marks.h"
#include "lockstep/comm/nccl/nccl_types.h"

namespace lockstep {

/// One operation as calls of NCCL on the current stream. Takes tensors as Communicator's `do_*` get them; empty tensors
/// are left alone.
class NcclCall {
 public:
  /// @param marks  exchanged together with the operation
  NcclCall(NcclHandle& handle, const Operation& operation, NcclMarks& marks);

  void all_reduce(at::Tensor& tensor);
  void broadcast(at::Tensor& tensor);
  void reduce(at::Tensor& tensor);
  void all_gather(at::Tensor& out, const at::Tensor& in);
  void reduce_scatter(at::Tensor& out, const at::Tensor& in);
  void gather(at::Tensor& out, const at::Tensor& in, int rank, int world_size);
  void scatter(at::Tensor& out, const at::Tensor& in, int rank, int world_size);
  void all_to_all(at::Tensor& out, const at::Tensor& in, int world_size);
  void send(const at::Tensor& tensor, int to);
  void recv(at::Tensor& tensor, int from);

 private:
  template <typename Call>
  void call(const char* what, const Call& body);
  /// Sends and receives with every rank, all at once.
  template <typename Each>
  void with_each(const char* what, int world_size, const Each& each);
  ncclResult_t send_part(const at::Tensor& tensor, int part, int to, ncclComm_t communicator) const;
  ncclResult_t receive_part(const at::Tensor& tensor, int part, int from, ncclComm_t communicator) const;

  NcclHandle& handle_;
  NcclMarks& marks_;
  const std::size_t count_;  // elements of NCCL in one rank's share
  const std::size_t bytes_;
  const ncclDataType_t type_;
  const ncclRedOp_t reduction_;
  const int root_;
  cudaStream_t const stream_;
};

}  // namespace lockstep
