#include "lockstep/parallel/reducer/backward_flags.h"

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

BackwardFlags::BackwardFlags(std::size_t parameters, int world_size, bool counts_updates)
    : parameters_(parameters),
      moved_at_(2 * parameters + static_cast<std::size_t>(world_size)),
      values_(update_at() + (counts_updates ? 2 * kUpdateBits : 0), 0.0F) {}

void BackwardFlags::clear() { std::fill(values_.begin(), values_.end(), 0.0F); }

void BackwardFlags::write_bits(std::size_t at, std::size_t count, std::uint64_t bits) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_set = ((bits >> i) & 1) != 0;
    values_[at + 2 * i] = is_set ? 1 : 0;
    values_[at + 2 * i + 1] = is_set ? 0 : 1;
  }
}

std::uint64_t BackwardFlags::differing_bits(std::size_t at, std::size_t count) const {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (values_[at + 2 * i] > 0 && values_[at + 2 * i + 1] > 0) result |= std::uint64_t{1} << i;
  }
  return result;
}

bool BackwardFlags::any_late() const {
  const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(parameters_);
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(parameters_), [](float value) { return value > 0; });
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
