// The public calls of Communicator: their checks, and the do_* functions that they call.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/communicator_state.h"

namespace lockstep {
namespace {

// The types with which engines compute. Other values are moved as bytes, without arithmetic.
bool is_computed_with(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
    case c10::ScalarType::Byte:
      return true;
    default:
      return false;
  }
}

bool is_reduction(OperationKind kind) {
  return kind == OperationKind::AllReduce || kind == OperationKind::Reduce || kind == OperationKind::ReduceScatter;
}

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

void Communicator::check_tensor(const at::Tensor& tensor, const std::string& what) const {
  if (!tensor.defined()) {
    throw Error(what + ": a tensor is undefined", where(nullptr), "pass a tensor with storage");
  }
  if (tensor.device() != device()) {
    throw Error(fmt::format("{}: a tensor is on {}, but engine {} of this rank works on {}", what,
                            tensor.device().str(), engine(), device().str()),
                where(nullptr), "move the tensor there");
  }
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    throw Error(fmt::format("{}: a tensor is of type {}, which collectives do not carry", what, tensor.toString()),
                where(nullptr), "give a dense tensor, not a sparse or quantized one");
  }
}

// Returns the number of elements of one rank's share.
std::int64_t Communicator::check_sizes(const Request& request, const std::string& what) const {
  const std::int64_t size = world_size();
  const auto whole = [&](const at::Tensor& all, const at::Tensor& share, const char* all_name, const char* share_name) {
    check_tensor(all, what);
    check_tensor(share, what);
    if (all.scalar_type() != share.scalar_type()) {
      throw Error(fmt::format("{}: `in` is {}, `out` is {}", what, request.in.toString(), request.out.toString()),
                  where(nullptr), "give both the same dtype");
    }
    if (all.numel() != size * share.numel()) {
      throw Error(fmt::format("{}: `{}` has {} elements, but {} ranks times the {} of `{}` make {}", what, all_name,
                              all.numel(), size, share.numel(), share_name, size * share.numel()),
                  where(nullptr), "make it world_size times the share");
    }
    return share.numel();
  };
  switch (request.kind) {
    case OperationKind::AllGather:
      return whole(request.out, request.in, "out", "in");
    case OperationKind::ReduceScatter:
      return whole(request.in, request.out, "in", "out");
    case OperationKind::Gather:
      if (rank() == request.root) return whole(request.out, request.in, "out", "in");
      check_tensor(request.in, what);
      return request.in.numel();
    case OperationKind::Scatter:
      if (rank() == request.root) return whole(request.in, request.out, "in", "out");
      check_tensor(request.out, what);
      return request.out.numel();
    case OperationKind::AllToAll:
      check_tensor(request.in, what);
      check_tensor(request.out, what);
      if (request.in.numel() != request.out.numel() || request.in.numel() % size != 0 ||
          request.in.scalar_type() != request.out.scalar_type()) {
        throw Error(
            fmt::format("{}: `in` has {} elements of {}, `out` {} of {}; they must be equal and divisible by {}", what,
                        request.in.numel(), request.in.toString(), request.out.numel(), request.out.toString(), size),
            where(nullptr), "give both world_size parts of one size and one dtype");
      }
      return request.in.numel() / size;
    case OperationKind::Barrier:
      return 0;
    case OperationKind::Send:
      check_tensor(request.in, what);
      return request.in.numel();
    default:
      check_tensor(request.out, what);
      return request.out.numel();
  }
}

Fingerprint Communicator::check(const Request& request) {
  const std::string what = to_string(request.kind);
  if (request.root < 0 || request.root >= world_size()) {
    throw Error(fmt::format("{}: rank {} does not exist", what, request.root), where(nullptr),
                fmt::format("name a rank in [0, {})", world_size()));
  }
  if (is_point_to_point(request.kind) && request.root == rank()) {
    throw Error(what + ": the other side is this rank itself", where(nullptr), "name another rank");
  }
  Fingerprint fingerprint;
  fingerprint.kind = request.kind;
  fingerprint.op = request.op;
  fingerprint.root = request.root;
  fingerprint.count = check_sizes(request, what);
  check_memory(request, what);
  const at::Tensor& tensor = request.in.defined() ? request.in : request.out;
  if (tensor.defined()) fingerprint.dtype = tensor.scalar_type();
  if (tensor.defined() && !is_computed_with(fingerprint.dtype) && is_reduction(request.kind)) {
    throw Error(
        fmt::format("{}: a tensor is of type {}, which reductions do not carry", what, tensor.toString()),
        where(nullptr),
        "convert it to fp32, fp64, fp16, bf16, int32, int64 or uint8; what only moves values (broadcast, all_gather, "
        "send, ...) takes any");
  }
  if (request.op == ReduceOp::Avg && tensor.defined() && !c10::isFloatingType(fingerprint.dtype)) {
    throw Error(fmt::format("{}: the average of {} is not defined", what, tensor.toString()), where(nullptr),
                "use ReduceOp::Sum and divide, or a floating-point tensor");
  }
  if (!is_point_to_point(request.kind)) {
    fingerprint.sequence = state_->next_collective.fetch_add(1, std::memory_order_relaxed);
    return fingerprint;
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  fingerprint.sequence = state_->next_point_to_point[{request.kind, request.root}]++;
  return fingerprint;
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

void Communicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  run({OperationKind::AllReduce, tensor, {}, 0, op});
}
void Communicator::broadcast(const at::Tensor& tensor, int root) { run({OperationKind::Broadcast, tensor, {}, root}); }
void Communicator::reduce(const at::Tensor& tensor, int root, ReduceOp op) {
  run({OperationKind::Reduce, tensor, {}, root, op});
}
void Communicator::all_gather(const at::Tensor& out, const at::Tensor& in) { run({OperationKind::AllGather, out, in}); }
void Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in, ReduceOp op) {
  run({OperationKind::ReduceScatter, out, in, 0, op});
}
void Communicator::gather(const at::Tensor& out, const at::Tensor& in, int root) {
  run({OperationKind::Gather, out, in, root});
}
void Communicator::scatter(const at::Tensor& out, const at::Tensor& in, int root) {
  run({OperationKind::Scatter, out, rank() == root ? in : at::Tensor(), root});
}
void Communicator::all_to_all(const at::Tensor& out, const at::Tensor& in) { run({OperationKind::AllToAll, out, in}); }
void Communicator::send(const at::Tensor& tensor, int to, int tag) {
  run({OperationKind::Send, {}, tensor, to, ReduceOp::Sum, tag});
}
void Communicator::recv(const at::Tensor& tensor, int from, int tag) {
  run({OperationKind::Recv, tensor, {}, from, ReduceOp::Sum, tag});
}
void Communicator::barrier() { run({OperationKind::Barrier, {}, {}}); }

std::shared_ptr<Work> Communicator::all_reduce_async(at::Tensor tensor, ReduceOp op) {
  return start({OperationKind::AllReduce, std::move(tensor), {}, 0, op});
}
std::shared_ptr<Work> Communicator::broadcast_async(at::Tensor tensor, int root) {
  return start({OperationKind::Broadcast, std::move(tensor), {}, root});
}
std::shared_ptr<Work> Communicator::reduce_async(at::Tensor tensor, int root, ReduceOp op) {
  return start({OperationKind::Reduce, std::move(tensor), {}, root, op});
}
std::shared_ptr<Work> Communicator::all_gather_async(at::Tensor out, at::Tensor in) {
  return start({OperationKind::AllGather, std::move(out), std::move(in)});
}
std::shared_ptr<Work> Communicator::reduce_scatter_async(at::Tensor out, at::Tensor in, ReduceOp op) {
  return start({OperationKind::ReduceScatter, std::move(out), std::move(in), 0, op});
}
std::shared_ptr<Work> Communicator::gather_async(at::Tensor out, at::Tensor in, int root) {
  return start({OperationKind::Gather, std::move(out), std::move(in), root});
}
std::shared_ptr<Work> Communicator::scatter_async(at::Tensor out, at::Tensor in, int root) {
  return start({OperationKind::Scatter, std::move(out), rank() == root ? std::move(in) : at::Tensor(), root});
}
std::shared_ptr<Work> Communicator::all_to_all_async(at::Tensor out, at::Tensor in) {
  return start({OperationKind::AllToAll, std::move(out), std::move(in)});
}
std::shared_ptr<Work> Communicator::isend(at::Tensor tensor, int to, int tag) {
  return start({OperationKind::Send, {}, std::move(tensor), to, ReduceOp::Sum, tag});
}
std::shared_ptr<Work> Communicator::irecv(at::Tensor tensor, int from, int tag) {
  return start({OperationKind::Recv, std::move(tensor), {}, from, ReduceOp::Sum, tag});
}
std::shared_ptr<Work> Communicator::barrier_async() { return start({OperationKind::Barrier, {}, {}}); }

}  // namespace lockstep
