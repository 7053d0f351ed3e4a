#include "lockstep/parallel/fused/gradient_selection.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace lockstep {

void GradientSelection::clear() { std::fill(marks_.begin(), marks_.end(), std::uint8_t{0}); }

// Fowler, Noll and Vo's hash.
std::uint64_t GradientSelection::number() const {
  std::uint64_t number = 0xcbf29ce484222325;
  for (const std::uint8_t mark : marks_) number = (number ^ mark) * 0x100000001b3;
  return number;
}

void GradientSelection::broadcast(Communicator& communicator, int root) {
  at::Tensor marks =
      at::from_blob(marks_.data(), {static_cast<std::int64_t>(marks_.size())}, at::TensorOptions().dtype(at::kByte));
  communicator.broadcast(marks, root);
}

std::vector<OwnedGradients> GradientSelection::cut(const OwnedGradients& owned, const FusedBucket& bucket,
                                                   const GradientBuckets& gradients) const {
  const auto is_selected = [this](std::size_t parameter) { return contains(parameter); };
  if (std::all_of(bucket.parameters.begin(), bucket.parameters.end(), is_selected)) return {owned};
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    if (!contains(bucket.parameters[i])) continue;
    OwnedGradients part = owned;
    const auto first = static_cast<std::size_t>(bucket.offsets[i]);
    const auto numel = static_cast<std::size_t>(gradients.parameter(bucket.parameters[i]).numel());
    part.begin = std::max(owned.begin, first);
    part.end = std::min(owned.end, first + numel);
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

}  // namespace lockstep
