#include "lockstep/tensor/compute_copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

struct Offers {
  std::shared_mutex mutex;
  std::unordered_map<const c10::TensorImpl*, ComputeCopySource*> sources;
  std::atomic<std::size_t> count{0};  // of sources: most programs have none and take no lock
};

thread_local bool casts = false;

// Never destroyed: a static model may end after everything else.
Offers& offers() {
  static auto& all = *new Offers;
  return all;
}

struct Kept {
  at::Tensor copy;  // undefined if nobody keeps one that is up to date
  bool is_gathered = false;
};

Kept kept_copy(const at::Tensor& parameter, at::ScalarType type) {
  Offers& all = offers();
  if (type != at::kBFloat16 || all.count.load(std::memory_order_acquire) == 0) return {};
  ComputeCopySource* source = nullptr;
  {
    const std::shared_lock<std::shared_mutex> lock(all.mutex);
    const auto found = all.sources.find(parameter.unsafeGetTensorImpl());
    if (found == all.sources.end()) return {};
    source = found->second;
  }
  if (casts && !source->are_gathered()) return {};
  return {source->current_copy(parameter), source->are_gathered()};
}

bool is_recorded(const at::Tensor& parameter) { return c10::GradMode::is_enabled() && parameter.requires_grad(); }

const std::byte* end_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data_ptr()) + tensor.nbytes();
}

// The copies as one tensor without moving them, or undefined.
at::Tensor neighbours(const std::array<Kept, 3>& kept) {
  const std::array<at::Tensor, 3> copies{kept[0].copy, kept[1].copy, kept[2].copy};
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (!copies[i].defined() || kept[i].is_gathered) return {};
    if (!copies[i].is_contiguous() || copies[i].sizes() != copies[0].sizes()) return {};
  }
  if (end_of(copies[0]) != copies[1].data_ptr() || end_of(copies[1]) != copies[2].data_ptr()) return {};
  std::vector<std::int64_t> sizes = copies[0].sizes().vec();
  sizes[0] *= 3;
  return at::from_blob(
      copies[0].data_ptr(), sizes, [copies](void*) {}, copies[0].options());
}

}  // namespace

ComputeCopyOffer::ComputeCopyOffer(const std::vector<at::Tensor>& parameters, ComputeCopySource& source) {
  Offers& all = offers();
  const std::unique_lock<std::shared_mutex> lock(all.mutex);
  for (const at::Tensor& parameter : parameters) {
    parameters_.push_back(parameter.unsafeGetTensorImpl());
    all.sources[parameters_.back()] = &source;
  }
  all.count.store(all.sources.size(), std::memory_order_release);
}

ComputeCopyOffer::~ComputeCopyOffer() {
  Offers& all = offers();
  const std::unique_lock<std::shared_mutex> lock(all.mutex);
  for (const c10::TensorImpl* parameter : parameters_) all.sources.erase(parameter);
  all.count.store(all.sources.size(), std::memory_order_release);
}

CopiesForGraphs::CopiesForGraphs() : before_(std::exchange(casts, casts || !c10::GradMode::is_enabled())) {}

CopiesForGraphs::~CopiesForGraphs() { casts = before_; }

at::Tensor compute_copy(const at::Tensor& parameter, at::ScalarType type) {
  if (parameter.scalar_type() == type) return parameter;
  if (is_recorded(parameter)) return parameter.to(type);
  const at::Tensor kept = kept_copy(parameter, type).copy;
  return kept.defined() ? kept : parameter.to(type);
}

at::Tensor compute_copies_joined(const std::array<at::Tensor, 3>& parameters, at::ScalarType type) {
  std::array<Kept, 3> copies;
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i] = kept_copy(parameters[i], type);
  const at::Tensor one = neighbours(copies);
  if (one.defined()) return one;
  std::vector<std::int64_t> sizes = parameters[0].sizes().vec();
  const std::int64_t rows = sizes[0];
  sizes[0] *= 3;
  const at::Tensor joined = at::empty(sizes, parameters[0].options().dtype(type).requires_grad(false));
  for (std::size_t i = 0; i < copies.size(); ++i) {
    at::Tensor place = joined.narrow(0, static_cast<std::int64_t>(i) * rows, rows);
    place.copy_(copies[i].copy.defined() ? copies[i].copy : parameters[i]);
  }
  return joined;
}

std::vector<at::Tensor> gathered_copies(const std::array<at::Tensor, 3>& parameters, at::ScalarType type) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : parameters) {
    Kept kept = kept_copy(parameter, type);
    if (!kept.is_gathered || !kept.copy.defined()) return {};
    result.push_back(std::move(kept.copy));
  }
  return result;
}

}  // namespace lockstep
