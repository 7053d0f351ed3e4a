#include "lockstep/comm/nccl/nccl_call.h"

#include <c10/cuda/CUDAStream.h>

namespace lockstep {
namespace {

bool is_under_way(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace

NcclCall::NcclCall(NcclHandle& handle, const Operation& operation, NcclMarks& marks)
    : handle_(handle),
      marks_(marks),
      count_(static_cast<std::size_t>(operation.fingerprint.count) * nccl_elements(operation.fingerprint.dtype)),
      bytes_(static_cast<std::size_t>(operation.fingerprint.count) * c10::elementSize(operation.fingerprint.dtype)),
      type_(nccl_type(operation.fingerprint.dtype)),
      reduction_(nccl_reduction(operation.fingerprint.op)),
      root_(operation.fingerprint.root),
      stream_(c10::cuda::getCurrentCUDAStream().stream()) {}

template <typename Call>
void NcclCall::call(const char* what, const Call& body) {
  if (count_ == 0) return;
  handle_.call(what, [&](ncclComm_t communicator) {
    return marks_.begin_with(communicator, stream_, [&] { return body(communicator); });
  });
}

template <typename Each>
void NcclCall::with_each(const char* what, int world_size, const Each& each) {
  call(what, [&](ncclComm_t communicator) {
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < world_size && is_under_way(result); ++peer) result = each(peer, communicator);
    const ncclResult_t ended = ncclGroupEnd();
    return is_under_way(result) ? ended : result;
  });
}

ncclResult_t NcclCall::send_part(const at::Tensor& tensor, int part, int to, ncclComm_t communicator) const {
  const auto* const begin = static_cast<const std::byte*>(tensor.data_ptr()) + static_cast<std::size_t>(part) * bytes_;
  return ncclSend(begin, count_, type_, to, communicator, stream_);
}

ncclResult_t NcclCall::receive_part(const at::Tensor& tensor, int part, int from, ncclComm_t communicator) const {
  auto* const begin = static_cast<std::byte*>(tensor.data_ptr()) + static_cast<std::size_t>(part) * bytes_;
  return ncclRecv(begin, count_, type_, from, communicator, stream_);
}

void NcclCall::all_reduce(at::Tensor& tensor) {
  call("ncclAllReduce", [&](ncclComm_t communicator) {
    return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count_, type_, reduction_, communicator, stream_);
  });
}

void NcclCall::broadcast(at::Tensor& tensor) {
  call("ncclBroadcast", [&](ncclComm_t communicator) {
    return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), count_, type_, root_, communicator, stream_);
  });
}

void NcclCall::reduce(at::Tensor& tensor) {
  call("ncclReduce", [&](ncclComm_t communicator) {
    return ncclReduce(tensor.data_ptr(), tensor.data_ptr(), count_, type_, reduction_, root_, communicator, stream_);
  });
}

void NcclCall::all_gather(at::Tensor& out, const at::Tensor& in) {
  call("ncclAllGather", [&](ncclComm_t communicator) {
    return ncclAllGather(in.data_ptr(), out.data_ptr(), count_, type_, communicator, stream_);
  });
}

void NcclCall::reduce_scatter(at::Tensor& out, const at::Tensor& in) {
  call("ncclReduceScatter", [&](ncclComm_t communicator) {
    return ncclReduceScatter(in.data_ptr(), out.data_ptr(), count_, type_, reduction_, communicator, stream_);
  });
}

void NcclCall::gather(at::Tensor& out, const at::Tensor& in, int rank, int world_size) {
  with_each("ncclSend and ncclRecv of gather", world_size, [&](int peer, ncclComm_t communicator) {
    ncclResult_t result = ncclSuccess;
    if (peer == root_) result = send_part(in, 0, peer, communicator);
    if (rank == root_ && is_under_way(result)) result = receive_part(out, peer, peer, communicator);
    return result;
  });
}

void NcclCall::scatter(at::Tensor& out, const at::Tensor& in, int rank, int world_size) {
  with_each("ncclSend and ncclRecv of scatter", world_size, [&](int peer, ncclComm_t communicator) {
    ncclResult_t result = ncclSuccess;
    if (rank == root_) result = send_part(in, peer, peer, communicator);
    if (peer == root_ && is_under_way(result)) result = receive_part(out, 0, peer, communicator);
    return result;
  });
}

void NcclCall::all_to_all(at::Tensor& out, const at::Tensor& in, int world_size) {
  with_each("ncclSend and ncclRecv of all_to_all", world_size, [&](int peer, ncclComm_t communicator) {
    const ncclResult_t result = send_part(in, peer, peer, communicator);
    return is_under_way(result) ? receive_part(out, peer, peer, communicator) : result;
  });
}

void NcclCall::send(const at::Tensor& tensor, int to) {
  call("ncclSend", [&](ncclComm_t communicator) { return send_part(tensor, 0, to, communicator); });
}

void NcclCall::recv(at::Tensor& tensor, int from) {
  call("ncclRecv", [&](ncclComm_t communicator) { return receive_part(tensor, 0, from, communicator); });
}

}  // namespace lockstep
