#include "lockstep/parallel/fused/gradient_selection.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {

void GradientSelection::clear() { std::fill(counts_.begin(), counts_.end(), std::uint8_t{0}); }

void GradientSelection::add(std::size_t parameter) {
  if (counts_[parameter] == std::numeric_limits<std::uint8_t>::max()) {
    throw Error("the list has a parameter of a fused optimizer more than 255 times", "clip_grad_norm_",
                "list each parameter once, as module->parameters() does");
  }
  ++counts_[parameter];
}

double GradientSelection::count_of(const std::vector<std::uint8_t>& marks) const {
  double count = 0;
  for (std::size_t i = 0; i < marks.size(); ++i) count += marks[i] * counts_[i];
  return count;
}

bool GradientSelection::any_of(const std::vector<std::uint8_t>& marks) const {
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] != 0 && counts_[i] != 0) return true;
  }
  return false;
}

// Fowler, Noll and Vo's hash.
std::uint64_t GradientSelection::number() const {
  std::uint64_t number = 0xcbf29ce484222325;
  for (const std::uint8_t count : counts_) number = (number ^ count) * 0x100000001b3;
  return number;
}

void GradientSelection::broadcast(Communicator& communicator, int root) {
  at::Tensor counts =
      at::from_blob(counts_.data(), {static_cast<std::int64_t>(counts_.size())}, at::TensorOptions().dtype(at::kByte));
  communicator.broadcast(counts, root);
}

std::vector<OwnedGradients> GradientSelection::cut(const OwnedGradients& owned, const FusedBucket& bucket,
                                                   const GradientBuckets& gradients,
                                                   const std::vector<std::uint8_t>& contributed) const {
  const auto is_listed_once = [this](std::size_t parameter) { return count(parameter) == 1; };
  const bool is_whole = std::all_of(bucket.parameters.begin(), bucket.parameters.end(), is_listed_once);
  if (contributed.empty() && is_whole) return {owned};
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    if (!contributed.empty() && contributed[bucket.parameters[i]] == 0) continue;
    OwnedGradients part = owned;
    const auto first = static_cast<std::size_t>(bucket.offsets[i]);
    const auto numel = static_cast<std::size_t>(gradients.parameter(bucket.parameters[i]).numel());
    part.begin = std::max(owned.begin, first);
    part.end = std::min(owned.end, first + numel);
    if (part.begin < part.end) parts.insert(parts.end(), static_cast<std::size_t>(count(bucket.parameters[i])), part);
  }
  return parts;
}

}  // namespace lockstep
