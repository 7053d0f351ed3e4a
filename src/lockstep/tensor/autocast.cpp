#include "lockstep/detail/tensor/autocast.h"

#include <torch/version.h>

namespace lockstep {

// LibTorch 2.4 gave all devices one set of functions.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

bool is_autocast_on(c10::DeviceType device) { return at::autocast::is_autocast_enabled(device); }
at::ScalarType autocast_type(c10::DeviceType device) { return at::autocast::get_autocast_dtype(device); }

namespace {
void turn_autocast(c10::DeviceType device, bool on) { at::autocast::set_autocast_enabled(device, on); }
void set_autocast_type(c10::DeviceType device, at::ScalarType type) { at::autocast::set_autocast_dtype(device, type); }
}  // namespace

#else

bool is_autocast_on(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
at::ScalarType autocast_type(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::get_autocast_cpu_dtype()
                                        : at::autocast::get_autocast_gpu_dtype();
}

namespace {
void turn_autocast(c10::DeviceType device, bool on) {
  device == c10::DeviceType::CPU ? at::autocast::set_cpu_enabled(on) : at::autocast::set_enabled(on);
}
void set_autocast_type(c10::DeviceType device, at::ScalarType type) {
  device == c10::DeviceType::CPU ? at::autocast::set_autocast_cpu_dtype(type)
                                 : at::autocast::set_autocast_gpu_dtype(type);
}
}  // namespace

#endif

Autocast::Autocast(c10::DeviceType device, at::ScalarType dtype, bool enabled) : device_(device), enabled_(enabled) {
  if (!enabled_) return;
  before_ = is_autocast_on(device);
  dtype_before_ = autocast_type(device);
  at::autocast::increment_nesting();
  turn_autocast(device, true);
  set_autocast_type(device, dtype);
}

Autocast::~Autocast() {
  if (!enabled_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  turn_autocast(device_, before_);
  set_autocast_type(device_, dtype_before_);
}

AutocastTypes::AutocastTypes()
    : cpu_(autocast_type(c10::DeviceType::CPU)),
      cuda_(autocast_type(c10::DeviceType::CUDA)),
      has_cache_(at::autocast::is_autocast_cache_enabled()) {}

void AutocastTypes::set() const {
  set_autocast_type(c10::DeviceType::CPU, cpu_);
  set_autocast_type(c10::DeviceType::CUDA, cuda_);
  at::autocast::set_autocast_cache_enabled(has_cache_);
}

}  // namespace lockstep
