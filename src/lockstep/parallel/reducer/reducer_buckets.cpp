// Reducer: the buckets, the placement of gradients in them, and their use by a fused optimizer's step.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/parallel/reducer/bucket.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;  // a cache line: slices of neighbouring gradients never share one

std::int64_t aligned_numel(const at::Tensor& tensor) {
  const std::int64_t step = kAlignmentBytes / static_cast<std::int64_t>(tensor.element_size());
  return (tensor.numel() + step - 1) / step * step;
}

// Each rank's part of a bucket consists of whole cache lines.
std::int64_t equal_parts(std::int64_t numel, int world_size, const at::Tensor& like) {
  const std::int64_t step = world_size * kAlignmentBytes / static_cast<std::int64_t>(like.element_size());
  return (numel + step - 1) / step * step;
}

// The gradient's place in a bucket, laid out as the parameter itself if that leaves no holes, so that an in-place
// update walks both in one order. Autograd does not know that it is a view: zero_grad() detaches gradients in place,
// which autograd refuses for views.
at::Tensor view_as_parameter(const at::Tensor& memory, std::int64_t offset, const at::Tensor& parameter) {
  const at::AutoDispatchBelowADInplaceOrView untracked;
  const at::Tensor place = memory.narrow(0, offset, parameter.numel());
  if (parameter.is_non_overlapping_and_dense()) return place.as_strided(parameter.sizes(), parameter.strides());
  return place.view(parameter.sizes());
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

void Reducer::allocate_buckets(const ReducerOptions& options) {
  std::vector<GradientSize> sizes;
  for (const auto& parameter : parameters_) {
    const auto element_bytes = static_cast<std::int64_t>(parameter.tensor.element_size());
    sizes.push_back({aligned_numel(parameter.tensor) * element_bytes, parameter.tensor.scalar_type()});
  }
  const auto layout = make_buckets(sizes, options.first_bucket_cap_bytes, options.bucket_cap_bytes);
  for (std::size_t index = 0; index < layout.size(); ++index) {
    BucketState bucket;
    bucket.params = layout[index].params;
    const at::Tensor& first = parameters_[bucket.params.front()].tensor;
    const std::int64_t numel = layout[index].bytes / static_cast<std::int64_t>(first.element_size());
    bucket.numel = equal_parts(numel, communicator_->world_size(), first);
    bucket.gradients.index = index;
    bucket.gradients.is_last = index + 1 == layout.size();
    std::int64_t offset = 0;
    for (const std::size_t i : bucket.params) {
      parameters_[i].bucket = index;
      bucket.offsets.push_back(offset);
      offset += aligned_numel(parameters_[i].tensor);
      bucket.gradients.parameters.push_back(parameters_[i].tensor);
      bucket.gradients.names.push_back(parameters_[i].name);
    }
    place_gradients(bucket, communicator_->allocate({numel_with_flags(bucket)}, first.scalar_type()));
    buckets_.push_back(std::move(bucket));
  }
}

std::int64_t Reducer::numel_with_flags(const BucketState& bucket) const {
  return bucket.numel + (bucket.gradients.is_last ? flags_.numel() : 0);
}

void Reducer::place_gradients(BucketState& bucket, const at::Tensor& memory) {
  bucket.memory = memory;
  bucket.memory.zero_();  // the gaps of the alignment are reduced, too
  bucket.gradients.gradients.clear();
  for (std::size_t k = 0; k < bucket.params.size(); ++k) {
    Parameter& parameter = parameters_[bucket.params[k]];
    parameter.view = view_as_parameter(memory, bucket.offsets[k], parameter.tensor);
    bucket.gradients.gradients.push_back(parameter.view);
  }
  const std::int64_t end = bucket.offsets.back() + aligned_numel(bucket.gradients.parameters.back());
  bucket.gradients.buffer = memory.narrow(0, 0, end);
}

// Moves the parameter's gradient into the bucket's memory; returns false if it has no gradient.
bool Reducer::take_gradient(Parameter& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& grad = parameter.tensor.mutable_grad();
  if (!grad.defined()) {
    parameter.view.zero_();
    return false;
  }
  if (grad.layout() != at::kStrided) {
    fail(fmt::format("parameter \"{}\" has a sparse gradient", parameter.name),
         "build the table as torch::nn::Embedding or EmbeddingBag with sparse(true), before the module is wrapped; "
         "elsewhere, as in TorchScript, build it with sparse = false");
  }
  if (same_memory(grad, parameter.view)) return true;
  if (grad.requires_grad()) {
    fail(fmt::format("the gradient of parameter \"{}\" requires a gradient itself (create_graph)", parameter.name),
         "call backward without create_graph; gradients of gradients are not synchronised");
  }
  parameter.view.copy_(grad);
  grad = parameter.view;
  return true;
}

void Reducer::adopt_gradient(std::size_t index) {
  if (take_gradient(parameters_[index])) flags_.set_contributed(index);
}

std::vector<std::vector<std::size_t>> Reducer::bucket_layout() const {
  std::vector<std::vector<std::size_t>> layout;
  for (const auto& bucket : buckets_) layout.push_back(bucket.params);
  return layout;
}

std::vector<StepBucket> Reducer::step_buckets() const {
  std::vector<StepBucket> result;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketState& bucket = buckets_[i];
    result.push_back({i, bucket.memory.narrow(0, 0, bucket.numel), bucket.params, bucket.offsets});
  }
  return result;
}

void Reducer::leave_to_step(const std::vector<std::size_t>& buckets) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::size_t index : buckets) buckets_[index].left_to_step = true;
  all_left_ = buckets.size() == buckets_.size();
}

void Reducer::set_gradient_dtype(const std::vector<std::size_t>& buckets, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::size_t index : buckets) {
    BucketState& bucket = buckets_[index];
    if (bucket.memory.scalar_type() == dtype && !bucket.is_private) continue;
    place_gradients(bucket, communicator_->allocate({numel_with_flags(bucket)}, dtype));
    bucket.is_private = false;
  }
}

void Reducer::take_back_from_step() {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  all_left_ = false;
  start_for_step_ = nullptr;
  watch_for_step_ = nullptr;
  reduced_for_step_.reset();
  for (auto& bucket : buckets_) {
    bucket.left_to_step = false;
    const at::ScalarType dtype = bucket.gradients.parameters.front().scalar_type();
    if (bucket.memory.scalar_type() == dtype) continue;
    place_gradients(bucket, at::empty({numel_with_flags(bucket)}, bucket.memory.options().dtype(dtype)));
    bucket.is_private = true;  // other ranks may not call this, and allocating from the communicator is collective
    for (const std::size_t i : bucket.params) {
      if (parameters_[i].tensor.grad().defined()) take_gradient(parameters_[i]);
    }
  }
}

void Reducer::collect_for_step(std::vector<std::uint8_t>& contributed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_left_to_step(i)) contributed[i] = take_gradient(parameters_[i]) ? 1 : 0;
  }
}

void Reducer::show_after_step(const std::vector<std::uint8_t>& contributed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_left_to_step(i)) continue;
    if (contributed[i] != 0) {
      parameters_[i].tensor.mutable_grad() = parameters_[i].view;
    } else {
      ++statistics_.unused_parameters;
    }
  }
}

void Reducer::drop_gradients() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  sparse_.drop();
}

std::vector<std::uint64_t> Reducer::gradients_for_step() const {
  std::vector<std::uint64_t> result = {arrivals_};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_left_to_step(i)) continue;
    const at::Tensor& grad = parameters_[i].tensor.grad();
    const bool is_here = grad.defined() && same_memory(grad, parameters_[i].view);
    result.push_back(is_here ? 2 + grad._version() : grad.defined() ? 1 : 0);
  }
  return result;
}

std::uint64_t Reducer::writes_for_step() const {
  std::uint64_t count = arrivals_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_left_to_step(i)) continue;
    const at::Tensor& grad = parameters_[i].tensor.grad();
    // Versions only increase; a gradient in other memory counts as new.
    if (grad.defined()) count += same_memory(grad, parameters_[i].view) ? grad._version() : std::uint64_t{1} << 32;
  }
  return count;
}

}  // namespace lockstep
