// The driver, as far as LibTorch and Lockstep call it: how many devices there are, and whether one has a context. All
// other functions say that they are not imitated.
#include <cstdio>
#include <cstring>

#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/device_memory.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace {

constexpr int kInvalidDevice = 101, kNoDevice = 100, kNotSupported = 801;  // CUresult

int refuse_driver_call(const char* name) {
  std::fprintf(stderr, "[fake GPU] %s of the driver is not imitated\n", name);
  return kNotSupported;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return fake_gpu::visible_devices() > 0 ? 0 : kNoDevice; }

int cuDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = fake_gpu::visible_devices();
  return 0;
}

int cuDeviceGet(int* device, int number) {
  *device = number;
  return number >= 0 && number < fake_gpu::visible_devices() ? 0 : kInvalidDevice;
}

int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU");
  return 0;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = static_cast<std::size_t>(fake_gpu::all_device_bytes());
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kComputeCapabilityMajor = 75;
  *value = attribute == kComputeCapabilityMajor ? 8 : 0;
  return 0;
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && fake_gpu::settings().peer_access ? 1 : 0;
  return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = (fake_gpu::context_mask() >> static_cast<unsigned>(device) & 1U) != 0 ? 1 : 0;
  return 0;
}

int cuGetErrorString(int, const char** text) {
  *text = "an error of the driver that the fake devices do not name";
  return 0;
}

}  // extern "C"

#define NO_DRIVER_CALL(name) \
  extern "C" int name() { return refuse_driver_call(#name); }
NO_DRIVER_CALL(cuCtxGetCurrent)
NO_DRIVER_CALL(cuCtxSetCurrent)
NO_DRIVER_CALL(cuDevicePrimaryCtxRetain)
NO_DRIVER_CALL(cuFuncGetAttribute)
NO_DRIVER_CALL(cuFuncSetAttribute)
NO_DRIVER_CALL(cuFuncSetCacheConfig)
NO_DRIVER_CALL(cuLaunchCooperativeKernel)
NO_DRIVER_CALL(cuLaunchKernel)
NO_DRIVER_CALL(cuLinkAddData_v2)
NO_DRIVER_CALL(cuLinkComplete)
NO_DRIVER_CALL(cuLinkCreate_v2)
NO_DRIVER_CALL(cuModuleGetFunction)
NO_DRIVER_CALL(cuModuleLoad)
NO_DRIVER_CALL(cuModuleLoadData)
NO_DRIVER_CALL(cuModuleLoadDataEx)
NO_DRIVER_CALL(cuModuleUnload)
NO_DRIVER_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NO_DRIVER_CALL(cuPointerGetAttribute)
NO_DRIVER_CALL(cuTensorMapEncodeTiled)
