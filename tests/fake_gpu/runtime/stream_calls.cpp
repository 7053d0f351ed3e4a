// Functions of the CUDA runtime about streams and events.
#include "tests/fake_gpu/runtime/calls.h"
#include "tests/fake_gpu/runtime/capture.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/event.h"
#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {
namespace {

Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

cudaError_t make_event(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(new Event(current_device(), (flags & cudaEventDisableTiming) == 0));
  return cudaSuccess;
}

// The host waits; what a kernel did wrong meanwhile is reported.
cudaError_t after_host_wait() {
  ++counters().host_waits;
  return with_error(sticky_error());
}

}  // namespace
}  // namespace fake_gpu

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  const bool waits_for_default = (flags & cudaStreamNonBlocking) == 0;
  *stream = reinterpret_cast<cudaStream_t>(fake_gpu::make_stream(fake_gpu::current_device(), waits_for_default));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {  // no stream goes before another one here
  *priority = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (stream == nullptr) return fake_gpu::with_error(cudaErrorInvalidResourceHandle);
  fake_gpu::end_stream(fake_gpu::stream_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (fake_gpu::is_captured(stream)) return fake_gpu::with_error(cudaErrorStreamCaptureUnsupported);
  ++fake_gpu::counters().queries;
  return fake_gpu::stream_of(stream)->idle() ? cudaSuccess : fake_gpu::with_error(cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (fake_gpu::is_captured(stream)) return fake_gpu::with_error(cudaErrorStreamCaptureUnsupported);
  fake_gpu::stream_of(stream)->wait();
  return fake_gpu::after_host_wait();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  return fake_gpu::make_event(event, flags);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  delete fake_gpu::event_of(event);
  return cudaSuccess;
}

// "Must both be on the same device" (cudaEventRecord): else cudaErrorInvalidResourceHandle.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  fake_gpu::Stream* const on = fake_gpu::stream_of(stream);
  if (fake_gpu::event_of(event)->device() != on->device()) return fake_gpu::with_error(cudaErrorInvalidResourceHandle);
  ++fake_gpu::counters().events;
  fake_gpu::event_of(event)->record(on);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  ++fake_gpu::counters().stream_waits;
  if (const auto mark = fake_gpu::event_of(event)->mark()) {
    fake_gpu::push_in_order(fake_gpu::stream_of(stream), [mark] { mark->wait(); });
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (fake_gpu::anything_is_captured()) return fake_gpu::with_error(cudaErrorStreamCaptureUnsupported);
  ++fake_gpu::counters().queries;
  const auto mark = fake_gpu::event_of(event)->mark();
  return mark == nullptr || mark->is_set() ? cudaSuccess : fake_gpu::with_error(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (fake_gpu::anything_is_captured()) return fake_gpu::with_error(cudaErrorStreamCaptureUnsupported);
  if (const auto mark = fake_gpu::event_of(event)->mark()) mark->wait();
  return fake_gpu::after_host_wait();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  fake_gpu::Event* const first = fake_gpu::event_of(begin);
  fake_gpu::Event* const second = fake_gpu::event_of(end);
  const auto from = first->mark(), to = second->mark();
  const bool measures = from != nullptr && to != nullptr && first->timing() && second->timing();
  if (!measures || first->device() != second->device()) return fake_gpu::with_error(cudaErrorInvalidResourceHandle);
  if (!from->is_set() || !to->is_set()) return fake_gpu::with_error(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* argument, unsigned) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  fake_gpu::push_in_order(fake_gpu::stream_of(stream), [=] { call(stream, cudaSuccess, argument); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  fake_gpu::push_in_order(fake_gpu::stream_of(stream), [=] { call(argument); });
  return cudaSuccess;
}

}  // extern "C"
