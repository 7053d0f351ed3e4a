#include "lockstep/optim/update/state_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <tuple>

#include "lockstep/optim/kernels/large_pages.h"

namespace lockstep {
namespace {

constexpr std::int64_t kStateAlignmentBytes = 64;

std::int64_t aligned(std::int64_t numel, const at::Tensor& like) {
  const auto step = kStateAlignmentBytes / static_cast<std::int64_t>(like.element_size());
  return (numel + step - 1) / step * step;
}

template <typename Key>
Key make_torch_key(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

at::Tensor make_slab(std::int64_t numel, const at::Tensor& like) {
  at::Tensor slab = at::empty({numel}, like.options().requires_grad(false).layout(at::kStrided));
  if (slab.device().is_cpu()) advise_large_pages(slab.data_ptr(), slab.nbytes());
  return slab.zero_();
}

at::Tensor place_in(const at::Tensor& slab, std::int64_t offset, const StateSlot& slot) {
  const at::Tensor place = slab.narrow(0, offset, slot.numel());
  return slot.is_part ? place : place.as_strided(slot.parameter.sizes(), slot.parameter.strides());
}

// Allocates buffer `index` of all `slots`, which share one dtype and device.
void allocate_together(const std::vector<StateSlot*>& slots, std::size_t index) {
  std::int64_t numel = 0;
  for (const StateSlot* slot : slots) numel += aligned(slot->numel(), slot->parameter);
  const at::Tensor slab = make_slab(numel, slots.front()->parameter);
  std::int64_t offset = 0;
  for (StateSlot* slot : slots) {
    slot->buffers[index] = place_in(slab, offset, *slot);
    if (index == 0) slot->first = true;
    offset += aligned(slot->numel(), slot->parameter);
  }
}

}  // namespace

StateSlot* StateStore::find(const at::Tensor& parameter) {
  const auto found = slots_.find(parameter.unsafeGetTensorImpl());
  return found == slots_.end() ? nullptr : &found->second;
}

const StateSlot* StateStore::find(const at::Tensor& parameter) const {
  return const_cast<StateStore*>(this)->find(parameter);
}

StateSlot& StateStore::get(const at::Tensor& parameter) {
  StateSlot& slot = slots_[parameter.unsafeGetTensorImpl()];
  if (!slot.parameter.defined()) {
    slot.parameter = parameter;
    slot.end = parameter.numel();
    slot.torch_key = make_torch_key<TorchStateKey>(parameter);
  }
  return slot;
}

StateSlot& StateStore::make_part(const at::Tensor& parameter, std::int64_t begin, std::int64_t end) {
  const StateSlot whole = get(parameter);
  StateSlot part;
  part.parameter = parameter;
  part.is_part = true;
  part.begin = begin;
  part.end = end;
  part.step = whole.step;
  part.first = whole.first;
  part.torch_key = whole.torch_key;
  for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
    // Copied, so that the rest of the memory is freed.
    if (whole.buffers[i].defined()) {
      part.buffers[i] = whole.buffers[i].reshape({-1}).slice(0, begin - whole.begin, end - whole.begin).clone();
    }
  }
  return slots_[parameter.unsafeGetTensorImpl()] = part;
}

void StateStore::allocate(std::vector<std::pair<StateSlot*, std::size_t>> wanted) {
  // Weights that other ranks keep have no address: their state stays in the order of the list.
  const auto address = [](const StateSlot& slot) -> const std::byte* {
    if (!slot.parameter.has_storage()) return nullptr;
    return static_cast<const std::byte*>(slot.parameter.data_ptr()) +
           slot.begin * static_cast<std::int64_t>(slot.parameter.element_size());
  };
  using Kind = std::tuple<at::ScalarType, c10::Device>;
  for (std::size_t index = 0; index < UpdateRun::kMaxBuffers; ++index) {
    std::vector<std::pair<Kind, std::vector<StateSlot*>>> kinds;
    for (const auto& [slot, count] : wanted) {
      if (index >= count || slot->buffers[index].defined()) continue;
      if (!slot->is_part && !slot->parameter.is_non_overlapping_and_dense()) {
        slot->buffers[index] = at::zeros_like(slot->parameter);
        if (index == 0) slot->first = true;
        continue;
      }
      const Kind kind{slot->parameter.scalar_type(), slot->parameter.device()};
      auto place = std::find_if(kinds.begin(), kinds.end(), [&](const auto& entry) { return entry.first == kind; });
      if (place == kinds.end()) place = kinds.insert(kinds.end(), {kind, {}});
      place->second.push_back(slot);
    }
    for (auto& [kind, slots] : kinds) {
      std::stable_sort(slots.begin(), slots.end(),
                       [&](const StateSlot* a, const StateSlot* b) { return std::less<>()(address(*a), address(*b)); });
      allocate_together(slots, index);
    }
  }
}

}  // namespace lockstep
