// Stream capture. "It is invalid to synchronize or query the execution status of a stream which is being captured or a
// captured event" (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations"): such calls return
// cudaErrorStreamCaptureUnsupported. Which events are captured is not followed: while any stream is captured, all are.
#include "tests/fake_gpu/runtime/capture.h"

#include <mutex>
#include <set>

#include "tests/fake_gpu/runtime/calls.h"

namespace fake_gpu {
namespace {

std::mutex capture_mutex;
std::set<cudaStream_t>& captured_streams() {
  static auto* const streams = new std::set<cudaStream_t>;
  return *streams;
}

}  // namespace

bool is_captured(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(capture_mutex);
  return captured_streams().count(stream) > 0;
}

bool anything_is_captured() {
  const std::lock_guard<std::mutex> lock(capture_mutex);
  return !captured_streams().empty();
}

}  // namespace fake_gpu

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  const std::lock_guard<std::mutex> lock(fake_gpu::capture_mutex);
  fake_gpu::captured_streams().insert(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard<std::mutex> lock(fake_gpu::capture_mutex);
  if (fake_gpu::captured_streams().erase(stream) == 0) return fake_gpu::with_error(cudaErrorInvalidValue);
  static int empty;
  *graph = reinterpret_cast<cudaGraph_t>(&empty);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = fake_gpu::is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, std::size_t*) {
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t*, const cudaGraphNode_t**, std::size_t*) {
#endif
  if (id != nullptr) *id = 1;
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

}  // extern "C"
