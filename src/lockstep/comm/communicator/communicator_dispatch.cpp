// How Communicator hands tensors to its engine: their memory in order, and dtypes that it can move.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/computed_dtype.h"

namespace lockstep {
namespace {

// A contiguous tensor in the form that engines take: as bytes, if they do not compute with its dtype.
at::Tensor carried(const at::Tensor& tensor) {
  if (!tensor.defined() || is_computed_with(tensor.scalar_type())) return tensor;
  const at::NoGradGuard no_grad;
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  const auto offset = tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  return at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false))
      .set_(tensor.storage(), offset, {bytes}, {1});
}

// Whether the memory holds the tensor's values in order; the memory of a conjugate or negative view does not.
bool holds_its_values(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// The tensor that an engine reads: the tensor itself if its memory holds its values, else a copy. `detach` costs more
// than a small collective, and engines go by the address.
at::Tensor readable(const at::Tensor& tensor) {
  if (!tensor.defined() || holds_its_values(tensor)) return tensor;
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

// A tensor that an engine writes: the tensor itself if its memory holds its values, else a copy that `finish` writes
// back.
class Writable {
 public:
  explicit Writable(const at::Tensor& tensor) : target_(tensor), flat_(tensor) {
    if (!tensor.defined() || holds_its_values(tensor)) return;
    target_ = tensor.detach();
    flat_ = target_.resolve_conj().resolve_neg().contiguous();
  }
  at::Tensor& flat() { return flat_; }
  void finish() {
    if (target_.defined() && !flat_.is_same(target_)) target_.copy_(flat_);
  }

 private:
  at::Tensor target_;
  at::Tensor flat_;
};

}  // namespace

bool Communicator::writes_out(const Request& request) const {
  switch (request.kind) {
    case OperationKind::Send:
    case OperationKind::Barrier:
      return false;
    case OperationKind::Gather:
      return rank() == request.root;
    default:
      return true;
  }
}

void Communicator::dispatch(Request& request, const Operation& operation) {
  at::Tensor nothing;
  at::Tensor& written = writes_out(request) ? request.out : nothing;
  if (!operation.staged && is_computed_with(operation.fingerprint.dtype)) {
    return call_engine(request.kind, written, request.in, operation);
  }
  const at::Tensor in = carried(readable(request.in));
  Writable out(written);
  at::Tensor to = carried(out.flat());
  call_engine(request.kind, to, in, operation);
  out.finish();
}

void Communicator::call_engine(OperationKind kind, at::Tensor& out, const at::Tensor& in, const Operation& operation) {
  switch (kind) {
    case OperationKind::AllReduce:
      return do_all_reduce(out, operation);
    case OperationKind::Broadcast:
      return do_broadcast(out, operation);
    case OperationKind::Reduce:
      return do_reduce(out, operation);
    case OperationKind::AllGather:
      return do_all_gather(out, in, operation);
    case OperationKind::ReduceScatter:
      return do_reduce_scatter(out, in, operation);
    case OperationKind::Gather:
      return do_gather(out, in, operation);
    case OperationKind::Scatter:
      return do_scatter(out, in, operation);
    case OperationKind::AllToAll:
      return do_all_to_all(out, in, operation);
    case OperationKind::Send:
      return do_send(in, operation);
    case OperationKind::Recv:
      return do_recv(out, operation);
    case OperationKind::Barrier:
      return do_barrier(operation);
  }
}

}  // namespace lockstep
