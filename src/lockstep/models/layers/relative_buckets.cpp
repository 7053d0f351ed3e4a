#include "lockstep/models/layers/relative_buckets.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include <cmath>

namespace lockstep {

at::Tensor relative_buckets(std::int64_t length, at::Device device) {
  constexpr std::int64_t kEachWay = kRelativeBuckets / 2;
  constexpr std::int64_t kExact = kEachWay / 2;
  constexpr double kFarthest = 128;
  const at::Tensor positions = at::arange(length, at::TensorOptions().dtype(at::kLong).device(device));
  const at::Tensor back = positions.unsqueeze(1) - positions.unsqueeze(0);
  const at::Tensor distance = back.abs();
  // In fp32 and in this order, as Hugging Face computes it: a rounding decides about the bucket.
  const at::Tensor wide = (distance.to(at::kFloat) / kExact).log() / std::log(kFarthest / kExact) * (kEachWay - kExact);
  const at::Tensor far = (wide.clamp_min(0).to(at::kLong) + kExact).clamp_max(kEachWay - 1);
  return at::where(distance.lt(kExact), distance, far) + back.lt(0).to(at::kLong) * kEachWay;
}

}  // namespace lockstep
