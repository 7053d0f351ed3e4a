// FusedStep: detects writes to weights and gradients while gradients wait for their step.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <string>

#include "lockstep/parallel/fused/fused_step.h"

namespace lockstep {

void reduce_marks(Communicator& communicator, std::vector<std::uint8_t>& marks) {
  if (communicator.world_size() == 1) return;
  at::Tensor all =
      at::from_blob(marks.data(), {static_cast<std::int64_t>(marks.size())}, at::TensorOptions().dtype(at::kByte));
  communicator.all_reduce(all, ReduceOp::Max);
}

// Fills `faults_`. @return  whether any fault was found
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

// Names the first parameter in `faults_`.
template <typename ErrorType>
ErrorType FusedStep::fault_error() const {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](std::uint8_t fault) { return fault != 0; });
  const auto index = static_cast<std::size_t>(found - faults_.begin());
  const FusedFaultText text = describe_fault(static_cast<FusedFault>(*found), reducer_.name(index));
  return ErrorType(text.happened, communicator_->membership().where() + ", fused optimizer", text.fix);
}

// Exchanges the ranks' findings. Runs on every rank.
void FusedStep::throw_agreed_fault() {
  reduce_marks(*communicator_, faults_);
  throw fault_error<AgreedError>();
}

// Throws what this rank alone has found; the other ranks learn of it when their group ends.
void FusedStep::throw_own_fault() {
  if (find_faults()) throw fault_error<Error>();
}

void FusedStep::before_forward() {
  if (!watch_->is_waiting()) return;
  if (watch_->gradients_are_gone()) {
    gradients_dropped();
  } else {
    guarded([&] { throw_own_fault(); });
  }
}

// Weights that were loaded since backward are as valid as weights that are loaded now.
void FusedStep::gradients_dropped() {
  if (!watch_->is_waiting()) return;
  if (!watch_->allows_drop()) guarded([&] { throw_own_fault(); });
  watch_->drop_gradients();
}

}  // namespace lockstep
