#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

namespace lockstep {

/// While it lives, operators of this thread compute in a smaller type where that is safe, as `torch.autocast`.
class [[nodiscard]] Autocast {
 public:
  /// @param dtype    bf16, or fp16 on CUDA
  /// @param enabled  false: nothing changes
  Autocast(c10::DeviceType device, at::ScalarType dtype, bool enabled);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_;
  bool before_ = false;
  at::ScalarType dtype_before_ = at::kFloat;
};

}  // namespace lockstep
