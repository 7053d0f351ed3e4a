#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace lockstep {

/// The precision of a model's computation: the dtype of its weights or, by autocast, a smaller dtype for operators that
/// allow it. Weights, gradients and optimizers are not changed.
struct MixedPrecision {
  bool autocast = false;
  at::ScalarType dtype = at::kBFloat16;  ///< or fp16, which needs a scaled loss: see GradScaler

  bool scales_loss() const { return autocast && dtype == at::kHalf; }
  std::string name() const { return !autocast ? "no" : scales_loss() ? "fp16" : "bf16"; }
};

/// @param name  no, bf16 or fp16, as in ACCELERATE_MIXED_PRECISION; also bfloat16, float16, half
/// @param where  named in the error
/// @throws Error  for another name
MixedPrecision mixed_precision_named(const std::string& name, const std::string& where);

/// Warns once per process if bf16 is slower than fp32 on this processor, and by which factor.
/// @throws Error  if this LibTorch does not support the precision on such a device: fp16 on the CPU, in most releases
void check_mixed_precision(const MixedPrecision& precision, c10::DeviceType device, const std::string& where);

}  // namespace lockstep
