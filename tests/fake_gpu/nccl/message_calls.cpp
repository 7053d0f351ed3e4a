// Messages of NCCL. A send ends when the other rank has received: "ncclSend and ncclRecv need to have matching calls",
// and one alone blocks its stream (NCCL User Guide, "Point-to-point communication"). All messages of a pair are in one
// order; NCCL has no tags.
#include <algorithm>
#include <cstring>

#include "tests/fake_gpu/nccl/communicator.h"
#include "tests/fake_gpu/nccl/launch.h"
#include "tests/fake_gpu/nccl/reduce.h"
#include "tests/fake_gpu/runtime/device_memory.h"

namespace fake_gpu {
namespace {

bool put(const ncclComm* c, Box& box, const char* from, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += kSlotBytes) {
    const std::size_t piece = std::min(kSlotBytes, bytes - offset);
    std::memcpy(box.data, from + offset, piece);
    ++box.written;
    if (!c->until([&] { return box.read.load() == box.written.load(); })) return false;
  }
  return true;
}

bool get(const ncclComm* c, Box& box, char* to, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += kSlotBytes) {
    const std::size_t piece = std::min(kSlotBytes, bytes - offset);
    if (!c->until([&] { return box.written.load() > box.read.load(); })) return false;
    std::memcpy(to + offset, box.data, piece);
    ++box.read;
  }
  return true;
}

}  // namespace
}  // namespace fake_gpu

extern "C" {

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream) {
  const std::size_t bytes = count * fake_gpu::size_of(type);
  return fake_gpu::submit(c, stream, true, [=] {
    return fake_gpu::put(c, c->shared.box(c->rank, peer), static_cast<char*>(fake_gpu::host_view(in)), bytes);
  });
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  const std::size_t bytes = count * fake_gpu::size_of(type);
  return fake_gpu::submit(c, stream, true, [=] {
    return fake_gpu::get(c, c->shared.box(peer, c->rank), static_cast<char*>(fake_gpu::host_view(out)), bytes);
  });
}

}  // extern "C"
