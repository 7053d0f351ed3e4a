#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

namespace lockstep {

/// Whether operators of this thread compute in a smaller type on devices of this kind, and in which type.
bool is_autocast_on(c10::DeviceType device);
at::ScalarType autocast_type(c10::DeviceType device);

/// While it lives, operators of this thread compute in a smaller type if that is safe for them, as with
/// `torch.autocast`.
class [[nodiscard]] Autocast {
 public:
  /// @param dtype    bf16 or fp16
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

/// The part of a thread's autocast that LibTorch's ThreadLocalState leaves out. The constructor captures it; `set`
/// applies it in a thread that works for the first one.
class AutocastTypes {
 public:
  AutocastTypes();
  void set() const;

 private:
  at::ScalarType cpu_;
  at::ScalarType cuda_;
  bool has_cache_;
};

}  // namespace lockstep
