#include "lockstep/launch/ranks/device_count.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lockstep/launch/numbers.h"

namespace lockstep {
namespace {

bool is_device(const std::string& name) {
  const std::string prefix = "nvidia";
  return name.size() > prefix.size() && name.rfind(prefix, 0) == 0 &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

// Devices in /dev that this process may open: a batch system shows all of them, and lets a job use its own.
int openable_gpus() {
  int count = 0;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", status)) {
    if (is_device(entry.path().filename().string()) && ::access(entry.path().c_str(), R_OK | W_OK) == 0) ++count;
  }
  return count;
}

class Library {
 public:
  explicit Library(const char* name) : handle_(::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  template <typename Function>
  Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_;
};

}  // namespace

int gpus_by_driver(const char* library) {
  const Library nvml(library);
  auto* const begin = nvml.find<int()>("nvmlInit_v2");
  auto* const ask = nvml.find<int(unsigned int*)>("nvmlDeviceGetCount_v2");
  auto* const end = nvml.find<int()>("nvmlShutdown");
  if (begin == nullptr || ask == nullptr || end == nullptr || begin() != 0) return 0;
  unsigned int count = 0;
  const bool is_known = ask(&count) == 0;
  end();
  return is_known ? static_cast<int>(count) : 0;
}

int visible_gpus() {
  int installed = openable_gpus();
  if (installed == 0) installed = gpus_by_driver("libnvidia-ml.so.1");
  // A variable that is set but empty hides all devices, so it differs from an unset one here.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return installed;
  int listed = 0;
  for (const std::string& device : split(visible, ',')) {
    if (device.empty() || device[0] == '-') break;  // CUDA stops reading at the first invalid entry
    ++listed;
  }
  return std::min(listed, installed);
}

}  // namespace lockstep
