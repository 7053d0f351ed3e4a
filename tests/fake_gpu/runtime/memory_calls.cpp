// Functions of the CUDA runtime about memory. When the host waits in a copy ("API synchronization behavior" of the CUDA
// Runtime API, memcpy): from pageable memory, until the bytes have been staged; to pageable memory, until they are
// there; between page-locked memory and a device, and between devices, not at all. cudaFree waits for the whole device.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fake_gpu/runtime/calls.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/device_memory.h"
#include "tests/fake_gpu/runtime/host_memory.h"
#include "tests/fake_gpu/runtime/settings.h"
#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {
namespace {

bool is_pageable(const void* pointer) { return device_of(pointer) < 0 && !is_pinned(pointer); }

// What is copied as rows: `width` bytes of each of `rows`.
struct Rows {
  std::size_t width, rows;
};

void copy_rows(char* to, std::size_t to_pitch, const char* from, std::size_t from_pitch, Rows rows) {
  for (std::size_t row = 0; row < rows.rows; ++row)
    std::memcpy(to + row * to_pitch, from + row * from_pitch, rows.width);
}

cudaError_t copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, Rows rows, Stream* stream) {
  ++counters().copies;
  char* const into = static_cast<char*>(host_view(to));
  const char* const source = static_cast<const char*>(host_view(from));
  if (is_pageable(from)) {
    const auto staged = std::make_shared<std::vector<char>>(rows.width * rows.rows);
    copy_rows(staged->data(), rows.width, source, from_pitch, rows);
    push_in_order(stream, [=] { copy_rows(into, to_pitch, staged->data(), rows.width, rows); });
  } else {
    push_in_order(stream, [=] { copy_rows(into, to_pitch, source, from_pitch, rows); });
  }
  if (!is_pageable(to)) return cudaSuccess;
  ++counters().host_waits;
  stream->wait();
  return with_error(sticky_error());
}

// The host waits after a copy, as in calls without "Async".
cudaError_t finish(cudaError_t status, Stream* stream) {
  if (status != cudaSuccess) return status;
  ++counters().host_waits;
  stream->wait();
  return with_error(sticky_error());
}

}  // namespace
}  // namespace fake_gpu

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  *pointer = fake_gpu::take_device_memory(fake_gpu::current_device(), bytes);
  return *pointer != nullptr ? cudaSuccess : fake_gpu::with_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (pointer == nullptr) return cudaSuccess;
  const int device = fake_gpu::device_of(pointer);
  if (device < 0) return fake_gpu::with_error(cudaErrorInvalidValue);
  ++fake_gpu::counters().host_waits;
  fake_gpu::wait_for_device(device);
  return fake_gpu::give_device_memory(pointer) ? cudaSuccess : fake_gpu::with_error(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* all_bytes) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  *free_bytes = fake_gpu::free_device_bytes(fake_gpu::current_device());
  *all_bytes = fake_gpu::all_device_bytes();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  *pointer = fake_gpu::take_pinned_memory(bytes);
  return *pointer != nullptr ? cudaSuccess : fake_gpu::with_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (pointer == nullptr || fake_gpu::give_pinned_memory(pointer)) return cudaSuccess;
  return fake_gpu::with_error(cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  fake_gpu::register_pinned(pointer, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* pointer) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  return fake_gpu::unregister_pinned(pointer) ? cudaSuccess : fake_gpu::with_error(cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  std::memset(attributes, 0, sizeof *attributes);
  attributes->device = fake_gpu::device_of(pointer);
  if (attributes->device >= 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (fake_gpu::is_pinned(pointer)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = fake_gpu::current_device();
    attributes->devicePointer = attributes->hostPointer = const_cast<void*>(pointer);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  return fake_gpu::copy(to, bytes, from, bytes, {bytes, 1}, fake_gpu::stream_of(stream));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return fake_gpu::finish(cudaMemcpyAsync(to, from, bytes, kind, nullptr), fake_gpu::stream_of(nullptr));
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  return fake_gpu::copy(to, to_pitch, from, from_pitch, {width, rows}, fake_gpu::stream_of(stream));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  const bool right = fake_gpu::device_of(to) == to_device && fake_gpu::device_of(from) == from_device;
  if (!right) return fake_gpu::with_error(cudaErrorInvalidValue);
  return fake_gpu::copy(to, bytes, from, bytes, {bytes, 1}, fake_gpu::stream_of(stream));
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  ++fake_gpu::counters().copies;
  void* const into = fake_gpu::host_view(to);
  fake_gpu::push_in_order(fake_gpu::stream_of(stream), [=] { std::memset(into, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fake_gpu::finish(cudaMemsetAsync(to, value, bytes, nullptr), fake_gpu::stream_of(nullptr));
}

}  // extern "C"
