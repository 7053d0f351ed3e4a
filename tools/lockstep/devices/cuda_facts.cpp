#include "tools/lockstep/devices/cuda_facts.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <regex>

namespace lockstep {
namespace {

// Functions of CUDA's driver, whose numbers and names are stable; its header is not needed.
class CudaDriver {
 public:
  CudaDriver() : library_(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {}
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  ~CudaDriver() = default;  // the driver stays loaded: LibTorch uses it, too

  bool is_there() const { return library_ != nullptr; }

  /// CUresult of a function; -1 if the library has no such function.
  template <typename... Parameters>
  int call(const char* name, Parameters... parameters) const {
    auto* const function = reinterpret_cast<int (*)(Parameters...)>(::dlsym(library_, name));
    return function == nullptr ? -1 : function(parameters...);
  }

  std::string error_text(int error) const {
    const char* text = nullptr;
    return call("cuGetErrorString", error, &text) == 0 && text != nullptr ? text : fmt::format("error {}", error);
  }

 private:
  void* library_;
};

// CUDA's way to write 13.2: 13020.
std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// The version that a function of a loaded library tells, such as cudaRuntimeGetVersion; 0 without such a library.
int version_by(const char* function) {
  auto* const ask = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, function));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::smatch found;
  return std::regex_search(line, found, std::regex("  ([0-9]+\\.[0-9.]+)")) ? found[1].str() : "";
}

CudaDevice device_number(const CudaDriver& driver, int number, int count) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  CudaDevice device;
  char name[256] = "";
  driver.call("cuDeviceGetName", static_cast<char*>(name), 256, number);
  device.name = name;
  std::size_t bytes = 0;
  driver.call("cuDeviceTotalMem_v2", &bytes, number);
  device.memory_bytes = static_cast<std::int64_t>(bytes);
  int major = 0;
  int minor = 0;
  driver.call("cuDeviceGetAttribute", &major, kMajor, number);
  driver.call("cuDeviceGetAttribute", &minor, kMinor, number);
  device.compute_capability = fmt::format("{}.{}", major, minor);
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer != number && driver.call("cuDeviceCanAccessPeer", &can, number, peer) == 0 && can != 0) {
      device.peers.push_back(peer);
    }
  }
  return device;
}

void ask_driver(CudaFacts& facts) {
  const CudaDriver driver;
  if (!driver.is_there()) {
    facts.why_none = "the driver's library, libcuda.so.1, is not installed";
    return;
  }
  int version = 0;
  if (driver.call("cuDriverGetVersion", &version) == 0) facts.driver = cuda_version(version);
  const int status = driver.call("cuInit", 0U);
  int count = 0;
  if (status == 0) driver.call("cuDeviceGetCount", &count);
  if (count == 0) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    facts.why_none = status == 0 ? "the driver sees no device" : "the driver says: " + driver.error_text(status);
    if (visible != nullptr) facts.why_none += fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", visible);
    return;
  }
  for (int number = 0; number < count; ++number) facts.devices.push_back(device_number(driver, number, count));
}

}  // namespace

CudaFacts cuda_facts() {
  CudaFacts facts;
  ask_driver(facts);
  facts.kernel_module = kernel_module_version();
  facts.has_torch_cuda = at::detail::getCUDAHooks().hasCUDA() || ::dlsym(RTLD_DEFAULT, "cudaGetDeviceCount") != nullptr;
  if (const int runtime = version_by("cudaRuntimeGetVersion"); runtime > 0) facts.runtime = cuda_version(runtime);
  if (const int nccl = version_by("ncclGetVersion"); nccl > 0) {
    facts.nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100);
  }
  return facts;
}

std::vector<int> devices_with_context() {
  const CudaDriver driver;
  std::vector<int> devices;
  int count = 0;
  if (driver.is_there()) driver.call("cuDeviceGetCount", &count);
  for (int number = 0; number < count; ++number) {
    unsigned int flags = 0;
    int is_active = 0;
    if (driver.call("cuDevicePrimaryCtxGetState", number, &flags, &is_active) == 0 && is_active != 0) {
      devices.push_back(number);
    }
  }
  return devices;
}

nlohmann::ordered_json cuda_json(const CudaFacts& facts) {
  const auto text = [](const std::string& value) { return value.empty() ? "no" : value; };
  nlohmann::ordered_json out{{"driver", text(facts.driver)},
                             {"kernel_module", text(facts.kernel_module)},
                             {"runtime", text(facts.runtime)},
                             {"nccl", text(facts.nccl)}};
  out["devices"] = nlohmann::ordered_json::array();
  for (const CudaDevice& device : facts.devices) {
    out["devices"].push_back({{"name", device.name},
                              {"memory_bytes", device.memory_bytes},
                              {"compute_capability", device.compute_capability},
                              {"reads_memory_of", device.peers}});
  }
  if (facts.devices.empty()) out["why_no_devices"] = facts.why_none;
  return out;
}

std::string device_text(const CudaDevice& device) {
  std::string text = fmt::format("{}, {:.1f} GiB, compute capability {}", device.name,
                                 static_cast<double>(device.memory_bytes) / (1LL << 30), device.compute_capability);
  return text + (device.peers.empty() ? "" : fmt::format(", reads the memory of {}", fmt::join(device.peers, ", ")));
}

std::string cuda_warning(const CudaFacts& facts) {
  if (facts.devices.empty()) return "";
  if (!facts.has_torch_cuda) {
    return fmt::format(
        "this host has {} CUDA devices, but this LibTorch was built without CUDA, so they are not used. docs/gpu.md "
        "says which LibTorch to build with",
        facts.devices.size());
  }
  const auto major = [](const std::string& version) { return std::atoi(version.c_str()); };
  if (!facts.runtime.empty() && major(facts.driver) < major(facts.runtime)) {
    return fmt::format(
        "the driver supports CUDA {}, but LibTorch needs {}: no kernel will run. Install a newer driver, or build with "
        "a "
        "PyTorch for CUDA {} (docs/gpu.md)",
        facts.driver, facts.runtime, major(facts.driver));
  }
  return "";
}

}  // namespace lockstep
