#include "tests/fake_gpu/runtime/settings.h"

#include <cstdlib>
#include <vector>

namespace fake_gpu {
namespace {

// CUDA_VISIBLE_DEVICES: "a sequence of GPU indices"; "if one of the indices is invalid, only the devices whose index
// precedes the invalid index are visible" (CUDA C++ Programming Guide, environment variables).
std::vector<int> read_visible() {
  std::vector<int> devices;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int device = 0; device < settings().devices; ++device) devices.push_back(device);
    return devices;
  }
  while (*list != 0) {
    char* end = nullptr;
    const long device = std::strtol(list, &end, 10);
    if (end == list || device < 0 || device >= settings().devices) break;
    devices.push_back(static_cast<int>(device));
    if (*end != ',') break;
    list = end + 1;
  }
  return devices;
}

const std::vector<int>& visible() {
  static const auto* const devices = new std::vector<int>(read_visible());
  return *devices;
}

Settings read_settings() {
  Settings read;
  read.devices = static_cast<int>(number_of("FAKE_GPU_DEVICES", read.devices));
  read.seed = static_cast<unsigned>(number_of("FAKE_GPU_SEED", read.seed));
  read.pause_us = static_cast<int>(number_of("FAKE_GPU_PAUSE_US", read.pause_us));
  read.peer_access = number_of("FAKE_GPU_PEER_ACCESS", 1) != 0;
  read.memory_mb = number_of("FAKE_GPU_MEMORY_MB", read.memory_mb);
  read.out_of_memory_at = number_of("FAKE_GPU_OUT_OF_MEMORY_AT", read.out_of_memory_at);
  read.log = static_cast<int>(number_of("FAKE_GPU_LOG", read.log));
  read.report = number_of("FAKE_GPU_REPORT", 0) != 0;
  return read;
}

}  // namespace

long number_of(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == 0 ? otherwise : std::strtol(text, nullptr, 10);
}

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

int visible_devices() { return static_cast<int>(visible().size()); }

int physical_device(int device) { return visible().at(static_cast<std::size_t>(device)); }

}  // namespace fake_gpu
