// The cases of shared memory between tensors that Communicator refuses.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstddef>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {
namespace {

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

// Tensors that are not contiguous are copied, and the copies share no memory with `in`.
void Communicator::check_memory(const Request& request, const std::string& what) const {
  if (!writes_out(request)) return;
  if (at::has_internal_overlap(request.out) == at::MemOverlap::Yes) {
    throw Error(fmt::format("{}: several elements of the tensor that it writes have one place in memory", what),
                where(nullptr), "pass a tensor that was not expanded: clone() makes one");
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
