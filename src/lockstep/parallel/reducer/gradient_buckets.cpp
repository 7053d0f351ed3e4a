#include "lockstep/parallel/reducer/gradient_buckets.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/zero_pages.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/reducer/bucket_layout.h"

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

GradientBuckets::GradientBuckets(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator,
                                 const Options& options)
    : parameters_(std::move(parameters)), communicator_(std::move(communicator)), places_(parameters_.size()) {
  std::vector<GradientSize> sizes;
  for (const auto& parameter : parameters_) {
    const auto element_bytes = static_cast<std::int64_t>(parameter.tensor.element_size());
    sizes.push_back({aligned_numel(parameter.tensor) * element_bytes, parameter.tensor.scalar_type()});
  }
  const auto layout = make_buckets(sizes, options.caps);
  for (std::size_t index = 0; index < layout.size(); ++index) {
    BucketMemory bucket;
    bucket.parameters = layout[index].params;
    bucket.contents.index = index;
    bucket.contents.is_last = index + 1 == layout.size();
    std::int64_t offset = 0;
    for (const std::size_t i : bucket.parameters) {
      places_[i].bucket = index;
      bucket.offsets.push_back(offset);
      offset += aligned_numel(parameters_[i].tensor);
      bucket.contents.parameters.push_back(parameters_[i].tensor);
      bucket.contents.names.push_back(parameters_[i].name);
    }
    const at::Tensor& first = bucket.contents.parameters.front();
    const std::int64_t numel = equal_parts(offset, communicator_->world_size(), first);
    const std::int64_t tail = bucket.contents.is_last ? options.tail_numel : 0;
    const bool later = options.gets_memory_later;
    const at::Tensor message = later ? at::empty({numel + tail}, first.options().requires_grad(false))
                                     : communicator_->allocate({numel + tail}, first.scalar_type());
    bucket.memory = message.narrow(0, 0, numel);
    use_memory(bucket, message, !later);
    // Weights that are not in memory yet are perhaps too many for it, and so are their gradients.
    if (later || is_watched(first)) zero_and_give_back(message.data_ptr(), message.nbytes());
    buckets_.push_back(std::move(bucket));
  }
  is_private_.resize(buckets_.size(), options.gets_memory_later);
  is_lent_.resize(buckets_.size(), false);
}

void GradientBuckets::use_memory(BucketMemory& bucket, const at::Tensor& message, bool is_cleared) {
  const std::int64_t numel = bucket.memory.numel();
  bucket.message = message;
  if (is_cleared) bucket.message.zero_();  // the gaps of the alignment are reduced, too
  bucket.memory = message.narrow(0, 0, numel);
  bucket.tail = message.narrow(0, numel, message.numel() - numel);
  bucket.contents.gradients.clear();
  for (std::size_t k = 0; k < bucket.parameters.size(); ++k) {
    at::Tensor& view = places_[bucket.parameters[k]].view;
    view = view_as_parameter(message, bucket.offsets[k], bucket.contents.parameters[k]);
    bucket.contents.gradients.push_back(view);
  }
  const std::int64_t end = bucket.offsets.back() + aligned_numel(bucket.contents.parameters.back());
  bucket.contents.buffer = message.narrow(0, 0, end);
}

bool GradientBuckets::take(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& grad = parameters_[parameter].tensor.mutable_grad();
  at::Tensor& view = places_[parameter].view;
  if (!grad.defined()) {
    view.zero_();
    return false;
  }
  if (grad.layout() != at::kStrided) {
    end_group(*communicator_, fmt::format("parameter \"{}\" has a sparse gradient", name(parameter)),
              "build the table as torch::nn::Embedding or EmbeddingBag with sparse(true), before the module is "
              "wrapped; elsewhere, as in TorchScript, build it with sparse = false");
  }
  if (same_memory(grad, view)) return true;
  if (grad.requires_grad()) {
    end_group(
        *communicator_,
        fmt::format("the gradient of parameter \"{}\" requires a gradient itself (create_graph)", name(parameter)),
        "call backward without create_graph; gradients of gradients are not synchronised");
  }
  view.copy_(grad);
  grad = view;
  return true;
}

void GradientBuckets::clear(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  if (is_in_place(parameter)) {
    at::Tensor& grad = parameters_[parameter].tensor.mutable_grad();
    grad = grad.clone();
  }
  places_[parameter].view.zero_();
}

at::Tensor GradientBuckets::take_off(std::size_t parameter) {
  return std::exchange(parameters_[parameter].tensor.mutable_grad(), at::Tensor());
}

bool GradientBuckets::is_in_place(std::size_t parameter) const {
  const at::Tensor& grad = parameters_[parameter].tensor.grad();
  return grad.defined() && same_memory(grad, places_[parameter].view);
}

void GradientBuckets::use_dtype(std::size_t index, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  BucketMemory& bucket = buckets_[index];
  if (bucket.memory.scalar_type() == dtype && !is_private_[index]) return;
  use_memory(bucket, communicator_->allocate({bucket.message.numel()}, dtype));
  is_private_[index] = false;
}

void GradientBuckets::lend(std::size_t index, const at::Tensor& memory, bool is_cleared) {
  const at::NoGradGuard no_grad;
  use_memory(buckets_[index], memory.narrow(0, 0, buckets_[index].message.numel()), is_cleared);
  is_private_[index] = false;
  is_lent_[index] = true;
}

void GradientBuckets::use_group_memory() {
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    use_dtype(index, buckets_[index].contents.parameters.front().scalar_type());
  }
}

void GradientBuckets::use_own_dtype() {
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    BucketMemory& bucket = buckets_[index];
    const at::ScalarType dtype = bucket.contents.parameters.front().scalar_type();
    if (bucket.memory.scalar_type() == dtype && !is_lent_[index]) continue;
    use_memory(bucket, at::empty({bucket.message.numel()}, bucket.message.options().dtype(dtype)));
    // Perhaps no backward follows, as at the end of a training: zeros that nobody has written take no memory.
    if (bucket.message.is_cpu()) zero_and_give_back(bucket.message.data_ptr(), bucket.message.nbytes());
    is_private_[index] = true;  // other ranks may not call this, and allocating from the communicator is collective
    is_lent_[index] = false;
    for (const std::size_t i : bucket.parameters) {
      if (parameters_[i].tensor.grad().defined()) take(i);
    }
  }
}

}  // namespace lockstep
