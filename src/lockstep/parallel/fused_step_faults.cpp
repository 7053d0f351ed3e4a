// FusedStep: weights and gradients that something else wrote, and weights that were loaded to other memory.
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/parallel/fused_step.h"
#include "lockstep/parallel/tensor_digest.h"

namespace lockstep {
namespace {

// The largest of all ranks' marks.
void reduce_marks(Communicator& communicator, std::vector<std::uint8_t>& marks) {
  if (communicator.world_size() == 1) return;
  at::Tensor all =
      at::from_blob(marks.data(), {static_cast<std::int64_t>(marks.size())}, at::TensorOptions().dtype(at::kByte));
  communicator.all_reduce(all, ReduceOp::Max);
}

at::Tensor place_of_parameter(const FusedBucket& bucket, std::size_t place, at::IntArrayRef sizes) {
  const at::Tensor flat = bucket.weights.narrow(0, bucket.gradients.offsets[place], c10::multiply_integers(sizes));
  return flat.view(sizes);
}

}  // namespace

bool FusedStep::is_moved(const FusedBucket& bucket, std::size_t place) const {
  const at::Tensor& parameter = reducer_.parameter(bucket.gradients.parameters[place]);
  const auto offset = static_cast<std::size_t>(bucket.gradients.offsets[place]) * bucket.weights.element_size();
  return parameter.numel() != 0 &&
         parameter.data_ptr() != static_cast<const std::byte*>(bucket.weights.data_ptr()) + offset;
}

bool FusedStep::any_moved() const {
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
      if (is_moved(bucket, i)) return true;
    }
  }
  return false;
}

// Into `faults_`. @return  whether there are any
bool FusedStep::find_faults() {
  std::fill(faults_.begin(), faults_.end(), std::uint8_t{0});
  bool any = false;
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
      const std::size_t index = bucket.gradients.parameters[i];
      const at::Tensor& parameter = reducer_.parameter(index);
      const at::Tensor& view = reducer_.gradient_place(index);
      FusedFault fault = watch_->fault(index);
      const bool is_converted = parameter.scalar_type() != bucket.weights.scalar_type() ||
                                parameter.device() != bucket.weights.device() || parameter.sizes() != view.sizes();
      if (is_converted) fault = FusedFault::WeightConverted;
      faults_[index] = static_cast<std::uint8_t>(fault);
      any = any || fault != FusedFault::None;
    }
  }
  return any;
}

void FusedStep::throw_agreed_fault() {
  reduce_marks(*communicator_, faults_);
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](std::uint8_t fault) { return fault != 0; });
  const auto index = static_cast<std::size_t>(found - faults_.begin());
  const FusedFaultText text = describe_fault(static_cast<FusedFault>(*found), reducer_.name(index));
  throw AgreedError(text.happened, communicator_->membership().where() + ", fused optimizer", text.fix);
}

// What this rank alone has found: the others learn of it as their group ends.
void FusedStep::throw_own_fault() {
  if (!find_faults()) return;
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](std::uint8_t fault) { return fault != 0; });
  const auto index = static_cast<std::size_t>(found - faults_.begin());
  const FusedFaultText text = describe_fault(static_cast<FusedFault>(*found), reducer_.name(index));
  throw Error(text.happened, communicator_->membership().where() + ", fused optimizer", text.fix);
}

void FusedStep::before_forward() {
  if (watch_->is_waiting()) {
    guarded([&] { throw_own_fault(); });
  } else {
    watch_->take_weights();  // they may have been written since the step
  }
}

void FusedStep::gradients_dropped() {
  if (!watch_->is_waiting()) return;
  guarded([&] { throw_own_fault(); });
  watch_->start_over();
}

// torch::load puts a tensor of its own in the place of each parameter. What is the same on all ranks goes where the
// step updates it, each rank its share where all have one copy.
void FusedStep::adopt_moved_weights() {
  std::vector<std::uint8_t> moved(reducer_.num_parameters(), 0);
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
      moved[bucket.gradients.parameters[i]] = is_moved(bucket, i) ? 1 : 0;
    }
  }
  reduce_marks(*communicator_, moved);
  std::vector<at::Tensor> loaded;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (moved[i] == 0) continue;
    loaded.push_back(reducer_.parameter(i));
    indices.push_back(i);
  }
  if (const auto difference = find_tensor_difference(*communicator_, loaded)) {
    throw AgreedError(
        fmt::format("parameter \"{}\" was moved to other memory after fuse, as torch::load does, and rank "
                    "{} has other values there than rank 0",
                    reducer_.name(indices[difference->index]), difference->rank),
        communicator_->membership().where() + ", fused optimizer",
        "load the same file on every rank; ranks that load nothing keep the weights that they had");
  }
  for (const FusedBucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
      if (is_moved(bucket, i)) adopt_moved_weight(bucket, i);
    }
  }
  if (communicator_->world_size() > 1) communicator_->barrier();
  watch_->take_weights();
}

void FusedStep::adopt_moved_weight(const FusedBucket& bucket, std::size_t place) {
  at::Tensor parameter = reducer_.parameter(bucket.gradients.parameters[place]);
  const std::int64_t offset = bucket.gradients.offsets[place];
  const at::Tensor target = place_of_parameter(bucket, place, parameter.sizes());
  std::int64_t begin = 0;
  std::int64_t end = parameter.numel();
  if (memory_->shares_weights()) {
    begin = std::max(begin, bucket.begin - offset);
    end = std::min(end, bucket.end - offset);
  }
  if (begin < end) {
    target.view({-1}).slice(0, begin, end).copy_(parameter.detach().reshape({-1}).slice(0, begin, end));
  }
  parameter.set_data(target);
}

}  // namespace lockstep
