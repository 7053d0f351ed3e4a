#include "lockstep/comm/local_device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {

c10::Device local_device() {
  const auto& cuda = at::detail::getCUDAHooks();
  const int devices = cuda.hasCUDA() ? static_cast<int>(cuda.getNumGPUs()) : 0;
  if (devices == 0) return {c10::kCPU};
  const auto local_rank = env_int("LOCAL_RANK").value_or(0);
  if (devices > 1 && (local_rank < 0 || local_rank >= devices)) {
    throw Error(fmt::format("LOCAL_RANK is {}, but this process sees {} CUDA devices", local_rank, devices),
                "environment", "start as many ranks on this host as it has devices, or choose the device yourself");
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(devices == 1 ? 0 : local_rank)};
}

c10::Device use_local_device() {
  const c10::Device device = local_device();
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(device);
  return device;
}

c10::Device use_local_device_by_default() {
  const c10::Device device = local_device();
  if (device.is_cpu()) return device;
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  if (cuda.getDevice().index() == 0) cuda.setDevice(device);
  return cuda.getDevice();
}

}  // namespace lockstep
