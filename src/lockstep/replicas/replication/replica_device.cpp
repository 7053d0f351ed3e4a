#include "lockstep/replicas/replica_device.h"

#include <torch/cuda.h>

#include <charconv>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

constexpr int kMaxDeviceIndex = 1023;

[[noreturn]] void refuse_device(const std::string& name) {
  throw Error("\"" + name + "\" is not a device for a replica", "device_ids",
              "use cpu:0, cpu:1, ... or cuda:0, cuda:1, ...");
}

int device_index(std::string_view digits, const std::string& name) {
  int index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() || index < 0 || index > kMaxDeviceIndex) {
    refuse_device(name);
  }
  return index;
}

int cuda_device_count() { return torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0; }

}  // namespace

ReplicaDevice::ReplicaDevice(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (kind != "cpu" && kind != "cuda") refuse_device(name);
  is_cpu_ = kind == "cpu";
  if (colon != std::string::npos) index_ = device_index(std::string_view(name).substr(colon + 1), name);
}

ReplicaDevice::ReplicaDevice(int index) : is_cpu_(!torch::cuda::is_available()), index_(index) {
  if (index < 0 || index > kMaxDeviceIndex) refuse_device(std::to_string(index));
}

std::string ReplicaDevice::name() const { return (is_cpu_ ? "cpu:" : "cuda:") + std::to_string(index_); }

c10::Device ReplicaDevice::tensor_device() const {
  return is_cpu_ ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index_));
}

void ReplicaDevice::require_present(const char* option) const {
  if (is_cpu_ || index_ < cuda_device_count()) return;
  throw Error("there is no " + name() + ": " + std::to_string(cuda_device_count()) + " CUDA devices are seen here",
              option, "name devices that exist, e.g. cpu:0,cpu:1");
}

std::vector<ReplicaDevice> all_replica_devices() {
  const int count = cuda_device_count() > 0 ? cuda_device_count() : available_cores();
  std::vector<ReplicaDevice> devices;
  for (int index = 0; index < count; ++index) devices.emplace_back(index);
  return devices;
}

}  // namespace lockstep
