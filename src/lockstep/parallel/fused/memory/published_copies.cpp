#include "lockstep/parallel/fused/memory/published_copies.h"

#include <algorithm>

#include "lockstep/base/log.h"
#include "lockstep/optim/memory_piece.h"
#include "lockstep/parallel/fused/fused_faults.h"
#include "lockstep/parallel/fused/memory/one_copy.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLineElements = 32;  // of two bytes in a cache line

std::int64_t whole_lines(std::int64_t numel) { return (numel + kLineElements - 1) / kLineElements * kLineElements; }

}  // namespace

PublishedCopies::PublishedCopies(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
                                 FusedMemory& memory, const FusedWatch& watch, Communicator& communicator)
    : gradients_(gradients), memory_(memory), watch_(watch), slots_(gradients.num_parameters()) {
  place(buckets, gradients, communicator);
  for (const FusedBucket& bucket : buckets) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) round_again(bucket, i);
  }
  if (communicator.world_size() > 1) communicator.barrier();
  std::vector<at::Tensor> offered;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].copy.defined()) continue;
    offered.push_back(gradients.parameter(i));
    indices_.emplace(offered.back().unsafeGetTensorImpl(), i);
  }
  offer_.emplace(offered, *this);
}

void PublishedCopies::place(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
                            Communicator& communicator) {
  std::vector<std::size_t> order;
  for (const FusedBucket& bucket : buckets) {
    if (bucket.weights.scalar_type() != at::ScalarType::Float) continue;
    order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool a_is_matrix = gradients.parameter(a).dim() > 1, b_is_matrix = gradients.parameter(b).dim() > 1;
    return a_is_matrix != b_is_matrix ? a_is_matrix : a < b;
  });
  std::int64_t numel = 0;
  for (const std::size_t i : order) numel += whole_lines(gradients.parameter(i).numel());
  const std::int64_t share = kLineElements * communicator.world_size();
  numel = std::max<std::int64_t>(1, (numel + share - 1) / share) * share;
  const at::Tensor all = allocate_one_copy(communicator, numel, at::TensorOptions().dtype(at::kBFloat16));
  std::int64_t offset = 0;
  for (const std::size_t i : order) {
    const at::Tensor& parameter = gradients.parameter(i);
    slots_[i].copy = memory_piece(all, offset, parameter.sizes());
    offset += whole_lines(parameter.numel());
  }
}

std::uint16_t* PublishedCopies::bits(std::size_t parameter) const {
  return static_cast<std::uint16_t*>(slots_[parameter].copy.data_ptr());
}

at::Tensor PublishedCopies::current_copy(const at::Tensor& parameter) {
  const auto found = indices_.find(parameter.unsafeGetTensorImpl());
  if (found == indices_.end() || !watch_.is_as_updated(found->second)) return {};
  was_read_.store(true, std::memory_order_relaxed);
  return slots_[found->second].copy;
}

void PublishedCopies::forgive() {
  for (Slot& slot : slots_) slot.was_stale.store(false, std::memory_order_relaxed);
}

bool PublishedCopies::end_update(Communicator& communicator) {
  if (!is_wanted_) {
    std::vector<std::uint8_t> marks{was_read_.load(std::memory_order_relaxed) ? std::uint8_t{1} : std::uint8_t{0}};
    reduce_marks(communicator, marks);
    is_wanted_ = marks[0] != 0;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!was_stale(i)) continue;
    log_warning(
        "fuse: forward has read a bf16 copy of parameter \"{}\" that was out of date, because the parameter was "
        "written "
        "past autograd, as by data(); the next step is an Error",
        gradients_.name(i));
  }
  return is_wanted_;
}

std::vector<WeightCopy> PublishedCopies::targets(const FusedBucket& bucket) {
  std::vector<WeightCopy> result;
  if (bucket.weights.scalar_type() != at::ScalarType::Float) return result;
  for (const std::size_t i : bucket.parameters) result.push_back({bits(i), &slots_[i].was_stale});
  return result;
}

bool PublishedCopies::round_again(const FusedBucket& bucket, std::size_t place) {
  const std::size_t parameter = bucket.parameters[place];
  if (!slots_[parameter].copy.defined()) return false;
  const std::int64_t offset = bucket.offsets[place];
  const std::int64_t begin = std::max<std::int64_t>(0, bucket.filled.begin - offset);
  const std::int64_t end = std::min(slots_[parameter].copy.numel(), bucket.filled.end - offset);
  if (begin >= end) return false;
  const float* weights = static_cast<const float*>(bucket.weights.data_ptr()) + offset;
  bool has_changed = false;
  memory_.access([&] {
    has_changed =
        round_to_bfloat16(weights, bits(parameter), static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
  return has_changed;
}

}  // namespace lockstep
