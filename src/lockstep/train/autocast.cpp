#include "lockstep/train/autocast.h"

#include <torch/version.h>

namespace lockstep {
namespace {

// LibTorch 2.4 gave all devices one set of functions.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

bool is_on(c10::DeviceType device) { return at::autocast::is_autocast_enabled(device); }
at::ScalarType type_of(c10::DeviceType device) { return at::autocast::get_autocast_dtype(device); }
void turn(c10::DeviceType device, bool on, at::ScalarType dtype) {
  at::autocast::set_autocast_enabled(device, on);
  at::autocast::set_autocast_dtype(device, dtype);
}

#else

bool is_on(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
at::ScalarType type_of(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::get_autocast_cpu_dtype()
                                        : at::autocast::get_autocast_gpu_dtype();
}
void turn(c10::DeviceType device, bool on, at::ScalarType dtype) {
  if (device == c10::DeviceType::CPU) {
    at::autocast::set_cpu_enabled(on);
    at::autocast::set_autocast_cpu_dtype(dtype);
  } else {
    at::autocast::set_enabled(on);
    at::autocast::set_autocast_gpu_dtype(dtype);
  }
}

#endif

}  // namespace

Autocast::Autocast(c10::DeviceType device, at::ScalarType dtype, bool enabled) : device_(device), enabled_(enabled) {
  if (!enabled_) return;
  before_ = is_on(device);
  dtype_before_ = type_of(device);
  at::autocast::increment_nesting();
  turn(device, true, dtype);
}

Autocast::~Autocast() {
  if (!enabled_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  turn(device_, before_, dtype_before_);
}

}  // namespace lockstep
