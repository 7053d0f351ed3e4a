// Collectives of NCCL. Each rank puts a piece of its values into its slot; when all have, each takes what it needs from
// the slots. Ranks that call different operations wait for each other until they are aborted, or read each other's
// bytes as something else: NCCL finds neither.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fake_gpu/nccl/communicator.h"
#include "tests/fake_gpu/nccl/launch.h"
#include "tests/fake_gpu/nccl/reduce.h"
#include "tests/fake_gpu/runtime/device_memory.h"

namespace fake_gpu {
namespace {

// Calls use(offset, bytes) for each piece, with every rank's piece in its slot; `in` is null on a rank that gives
// nothing.
template <typename Use>
bool exchange(ncclComm* c, const char* in, std::size_t bytes, const Use& use) {
  for (std::size_t offset = 0; offset < bytes; offset += kSlotBytes) {
    const std::size_t piece = std::min(kSlotBytes, bytes - offset);
    if (in != nullptr) std::memcpy(c->shared.slot(c->rank), in + offset, piece);
    if (!c->meet()) return false;
    use(offset, piece);
    if (!c->meet()) return false;
  }
  return true;
}

struct HowToReduce {
  ncclDataType_t type;
  ncclRedOp_t op;
};

void reduce_slots(ncclComm* c, char* out, std::size_t bytes, HowToReduce how) {
  const std::size_t count = bytes / size_of(how.type);
  std::vector<char> sum(bytes), other(bytes);
  for (int rank = 0; rank < c->size; ++rank) {
    std::vector<char>& values = rank == 0 ? sum : other;
    std::memcpy(values.data(), c->shared.slot(rank), bytes);
    if (how.op == ncclAvg) divide(values.data(), count, how.type, c->size);
    if (rank > 0) combine(sum.data(), other.data(), count, how.type, how.op);
  }
  std::memcpy(out, sum.data(), bytes);
}

char* bytes_of(const void* pointer) { return static_cast<char*>(host_view(pointer)); }

// The kernel of ncclReduce on `root`, and of ncclAllReduce if `root` is negative.
ncclResult_t submit_reduce(const void* in, void* out, std::size_t count, HowToReduce how, int root, ncclComm* c,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(how.type);
  if (size_of(how.type) == 0) return ncclInvalidArgument;
  return submit(c, stream, false, [=] {
    return exchange(c, bytes_of(in), bytes, [&](std::size_t offset, std::size_t piece) {
      if (root < 0 || c->rank == root) reduce_slots(c, bytes_of(out) + offset, piece, how);
    });
  });
}

}  // namespace
}  // namespace fake_gpu

using namespace fake_gpu;  // NOLINT: these are C functions outside of it

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t stream) {
  return submit_reduce(in, out, count, {type, op}, -1, c, stream);
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t c, cudaStream_t stream) {
  return submit_reduce(in, out, count, {type, op}, root, c, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return submit(c, stream, false, [=] {
    return exchange(c, c->rank == root ? bytes_of(in) : nullptr, bytes, [&](std::size_t offset, std::size_t piece) {
      std::memcpy(bytes_of(out) + offset, c->shared.slot(root), piece);
    });
  });
}

ncclResult_t ncclBcast(void* values, std::size_t count, ncclDataType_t type, int root, ncclComm_t c,
                       cudaStream_t stream) {
  return ncclBroadcast(values, values, count, type, root, c, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return submit(c, stream, false, [=] {
    const std::vector<char> mine(bytes_of(in), bytes_of(in) + bytes);  // `in` may be a part of `out`
    return exchange(c, mine.data(), bytes, [&](std::size_t offset, std::size_t piece) {
      for (int rank = 0; rank < c->size; ++rank) {
        std::memcpy(bytes_of(out) + static_cast<std::size_t>(rank) * bytes + offset, c->shared.slot(rank), piece);
      }
    });
  });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t c, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  if (size_of(type) == 0) return ncclInvalidArgument;
  return submit(c, stream, false, [=] {
    const std::size_t all = bytes * static_cast<std::size_t>(c->size);
    const std::vector<char> whole(bytes_of(in), bytes_of(in) + all);  // `out` may be a part of `in`
    for (int part = 0; part < c->size; ++part) {
      const char* const mine = whole.data() + static_cast<std::size_t>(part) * bytes;
      const bool done = exchange(c, mine, bytes, [&](std::size_t offset, std::size_t piece) {
        if (part == c->rank) reduce_slots(c, bytes_of(out) + offset, piece, {type, op});
      });
      if (!done) return false;
    }
    return true;
  });
}

}  // extern "C"
