// What Communicator refuses before an engine has the call: devices, sizes, types, and memory that tensors share.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/communicator_state.h"
#include "lockstep/comm/communicator/computed_dtype.h"
#include "lockstep/comm/communicator/reduced_elements.h"

namespace lockstep {
namespace {

bool is_reduction(OperationKind kind) {
  return kind == OperationKind::AllReduce || kind == OperationKind::Reduce || kind == OperationKind::ReduceScatter;
}

// The address range of a contiguous tensor.
struct Bytes {
  explicit Bytes(const at::Tensor& tensor)
      : begin(static_cast<const std::byte*>(tensor.data_ptr())), size(tensor.nbytes()) {}
  bool overlaps(const Bytes& other) const {
    return size != 0 && other.size != 0 && std::less<>()(begin, other.begin + other.size) &&
           std::less<>()(other.begin, begin + size);
  }
  const std::byte* begin;
  std::size_t size;
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
    throw Error(fmt::format("{}: a tensor is of type {}, which collectives do not support", what, tensor.toString()),
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
  check_moment(request.kind);
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
        fmt::format("{}: a tensor is of type {}, which reductions do not support", what, tensor.toString()),
        where(nullptr),
        "convert it to fp32, fp64, fp16, bf16, int32, int64 or uint8; what only moves values (broadcast, all_gather, "
        "send, ...) takes any");
  }
  if (request.op == ReduceOp::Avg && tensor.defined() && !c10::isFloatingType(fingerprint.dtype)) {
    throw Error(fmt::format("{}: the average of {} is not defined", what, tensor.toString()), where(nullptr),
                "use ReduceOp::Sum and divide, or a floating-point tensor");
  }
  if (is_reduction(request.kind) || request.kind == OperationKind::AllGather) note_reduced_elements(fingerprint.count);
  if (!is_point_to_point(request.kind)) {
    fingerprint.sequence = state_->next_collective.fetch_add(1, std::memory_order_relaxed);
    return fingerprint;
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  fingerprint.sequence = state_->next_point_to_point[{request.kind, request.root}]++;
  return fingerprint;
}

// Tensors that are not contiguous are copied, and the copies share no memory with `in`.
void Communicator::check_memory(const Request& request, const std::string& what) const {
  if (!writes_out(request)) return;
  if (at::has_internal_overlap(request.out) == at::MemOverlap::Yes) {
    throw Error(fmt::format("{}: several elements of its output tensor share one place in memory", what),
                where(nullptr), "pass a tensor that was not expanded, such as its clone()");
  }
  if (!request.in.defined() || !request.out.is_contiguous() || !request.in.is_contiguous()) return;
  const Bytes out(request.out);
  const Bytes in(request.in);
  if (!out.overlaps(in)) return;
  const auto in_place = [&](const Bytes& whole, const Bytes& share) {
    return share.begin == whole.begin + static_cast<std::size_t>(rank()) * share.size;
  };
  std::string fix = "give `out` memory of its own";
  switch (request.kind) {
    case OperationKind::AllGather:
    case OperationKind::Gather:
      if (in_place(out, in)) return;
      fix += ", or let `in` be exactly this rank's share of it";
      break;
    case OperationKind::ReduceScatter:
    case OperationKind::Scatter:
      if (in_place(in, out)) return;
      fix += ", or let it be exactly this rank's share of `in`";
      break;
    default:
      break;
  }
  throw Error(fmt::format("{}: `out` and `in` overlap in memory", what), where(nullptr), fix);
}

}  // namespace lockstep
