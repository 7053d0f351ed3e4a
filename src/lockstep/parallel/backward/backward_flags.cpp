#include "lockstep/parallel/backward/backward_flags.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace lockstep {
namespace {

at::Tensor as_tensor(std::vector<float>& values) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())},
                       at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

BackwardFlags::BackwardFlags(std::size_t parameters, int world_size)
    : parameters_(parameters),
      world_size_(world_size),
      values_(2 * parameters + static_cast<std::size_t>(world_size), 0.0F) {}

BackwardFlags::Any BackwardFlags::claim_any() {
  values_.push_back(0);
  return {values_.size() - 1};
}

BackwardFlags::Equal BackwardFlags::claim_equal(std::size_t bits) {
  const std::size_t at = values_.size();
  values_.resize(at + 2 * bits, 0.0F);
  return {at, bits};
}

void BackwardFlags::clear() { std::fill(values_.begin(), values_.end(), 0.0F); }

void BackwardFlags::say(Equal fact, std::uint64_t number) {
  for (std::size_t i = 0; i < fact.bits; ++i) {
    const bool is_set = ((number >> i) & 1) != 0;
    values_[fact.at + 2 * i] = is_set ? 1 : 0;
    values_[fact.at + 2 * i + 1] = is_set ? 0 : 1;
  }
}

std::uint64_t BackwardFlags::differing_bits(Equal fact) const {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < fact.bits; ++i) {
    if (values_[fact.at + 2 * i] > 0 && values_[fact.at + 2 * i + 1] > 0) result |= std::uint64_t{1} << i;
  }
  return result;
}

bool BackwardFlags::any_late() const {
  const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(parameters_);
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(parameters_), [](float value) { return value > 0; });
}

std::vector<bool> BackwardFlags::active_ranks() const {
  std::vector<bool> active;
  for (int rank = 0; rank < world_size_; ++rank) active.push_back(!joined(rank));
  return active;
}

void BackwardFlags::write(at::Tensor memory) const {
  const at::Tensor values = as_tensor(const_cast<std::vector<float>&>(values_));
  if (memory.device().is_cpu()) {
    memory.copy_(values);
    return;
  }
  // From page-locked memory the host does not wait for the device, which still computes the last gradients.
  const auto page_locked = at::TensorOptions().dtype(memory.scalar_type()).pinned_memory(true);
  memory.copy_(at::empty(values.sizes(), page_locked).copy_(values), /*non_blocking=*/true);
}

void BackwardFlags::read(const at::Tensor& memory) { as_tensor(values_).copy_(memory); }

}  // namespace lockstep
