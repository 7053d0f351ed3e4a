#include "lockstep/launch/ranks/device_count.h"

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

int installed_gpus() {
  int count = 0;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", status)) {
    if (is_device(entry.path().filename().string())) ++count;
  }
  return count;
}

}  // namespace

int visible_gpus() {
  const int installed = installed_gpus();
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
