#include "tests/fake_gpu/runtime/fake_device.h"

#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {

void run_on_stream(cudaStream_t stream, std::function<void()> work) {
  push_in_order(stream_of(stream), std::move(work));
}

void wait_quietly(cudaStream_t stream) { stream_of(stream)->wait(); }

}  // namespace fake_gpu
