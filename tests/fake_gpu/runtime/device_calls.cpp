// Functions of the CUDA runtime about devices and errors.
#include <cstdio>
#include <cstring>

#include "tests/fake_gpu/runtime/calls.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/device_memory.h"
#include "tests/fake_gpu/runtime/settings.h"
#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {
namespace {

bool is_device(int device) { return device >= 0 && device < visible_devices(); }

struct ErrorName {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorName kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};

}  // namespace
}  // namespace fake_gpu

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake_gpu::visible_devices();
  return *count > 0 ? cudaSuccess : fake_gpu::with_error(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = fake_gpu::current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!fake_gpu::is_device(device)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  if (const auto why = fake_gpu::why_unusable()) return fake_gpu::with_error(why);
  fake_gpu::set_current_device(device);
  fake_gpu::need_context(__func__);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  ++fake_gpu::counters().host_waits;
  fake_gpu::wait_for_device(fake_gpu::current_device());
  return fake_gpu::with_error(fake_gpu::sticky_error());
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!fake_gpu::is_device(device) || !fake_gpu::is_device(peer)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  *can = device != peer && fake_gpu::settings().peer_access ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (const auto why = fake_gpu::begin_call(__func__)) return why;
  if (!fake_gpu::is_device(peer)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  return fake_gpu::settings().peer_access ? cudaSuccess : fake_gpu::with_error(cudaErrorPeerAccessUnsupported);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!fake_gpu::is_device(device)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                static_cast<unsigned>(0x3b + fake_gpu::physical_device(device)));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!fake_gpu::is_device(device)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 8;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrPciBusId:
      *value = 0x3b + fake_gpu::physical_device(device);
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

// The same function has two names: CUDA 12 gave it a new one, and CUDA 13 gave that back.
static cudaError_t describe(cudaDeviceProp* device, int number) {
  if (!fake_gpu::is_device(number)) return fake_gpu::with_error(cudaErrorInvalidDevice);
  std::memset(device, 0, sizeof *device);
  std::snprintf(device->name, sizeof device->name, "Fake GPU");
  device->totalGlobalMem = fake_gpu::all_device_bytes();
  device->major = 8;
  device->multiProcessorCount = 4;
  device->warpSize = 32;
  device->maxThreadsPerBlock = device->maxThreadsDim[0] = device->maxThreadsDim[1] = 1024;
  device->maxThreadsDim[2] = 64;
  device->maxThreadsPerMultiProcessor = 2048;
  device->sharedMemPerBlock = 49152;
  device->sharedMemPerMultiprocessor = device->sharedMemPerBlockOptin = 167936;
  device->regsPerBlock = 65536;
  device->maxGridSize[0] = 2147483647;
  device->maxGridSize[1] = device->maxGridSize[2] = 65535;
  device->textureAlignment = 512;
  device->unifiedAddressing = 1;
  device->l2CacheSize = 1 << 20;
  device->pciBusID = 0x3b + fake_gpu::physical_device(number);
  device->uuid.bytes[0] = static_cast<char>(fake_gpu::physical_device(number) + 1);
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* device, int number) { return describe(device, number); }
#else
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* device, int number) { return describe(device, number); }
#endif

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return fake_gpu::last_error(true); }
cudaError_t cudaPeekAtLastError() { return fake_gpu::last_error(false); }

const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& known : fake_gpu::kErrors) {
    if (known.error == error) return known.name;
  }
  return "cudaError";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& known : fake_gpu::kErrors) {
    if (known.error == error) return known.text;
  }
  return "an error of CUDA that the fake devices do not name";
}

}  // extern "C"
