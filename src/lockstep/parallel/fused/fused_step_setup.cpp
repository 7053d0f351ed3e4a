// FusedStep: takes over buckets and weights, and gives them back.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/memory_piece.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/fused/fused_step.h"

namespace lockstep {
namespace {

bool can_be_fused(const at::Tensor& parameter) {
  const at::ScalarType dtype = parameter.scalar_type();
  return (dtype == at::ScalarType::Float || dtype == at::ScalarType::Double) && parameter.is_contiguous() &&
         parameter.device().is_cpu() && parameter.layout() == at::kStrided && parameter.is_leaf();
}

std::unordered_set<const c10::TensorImpl*> parameters_of(const FlatOptimizer& optimizer) {
  std::unordered_set<const c10::TensorImpl*> result;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) result.insert(parameter.unsafeGetTensorImpl());
  }
  return result;
}

}  // namespace

const char* to_string(FuseMode mode) {
  switch (mode) {
    case FuseMode::SharedWeights:
      return "shared weights";
    case FuseMode::ShardedState:
      return "sharded state";
    case FuseMode::Off:
      break;
  }
  return "off";
}

FusedStep::FusedStep(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator)
    : optimizer_(&optimizer),
      reducer_(reducer),
      communicator_(std::move(communicator)),
      faults_(reducer.num_parameters(), 0),
      selected_(reducer.num_parameters(), 0),
      agreement_(reducer.num_parameters(), communicator_->world_size()) {}

FusedStep::~FusedStep() { release(); }

std::unique_ptr<FusedStep> FusedStep::make(FlatOptimizer& optimizer, Reducer& reducer,
                                           const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                           std::string& reason) {
  const at::ScalarType dtype = options.gradient_dtype;
  if (dtype != at::ScalarType::Float && dtype != at::ScalarType::BFloat16 && dtype != at::ScalarType::Half) {
    throw Error(fmt::format("gradient_dtype is {}", c10::toString(dtype)),
                communicator->membership().where() + ", fuse", "choose Float, BFloat16 or Half");
  }
  std::unique_ptr<FusedStep> fused(new FusedStep(optimizer, reducer, communicator));
  fused->choose_buckets();
  std::vector<NamedTensor> chosen;
  for (const FusedBucket& bucket : fused->buckets_) {
    for (const std::size_t i : bucket.gradients.parameters) chosen.push_back({reducer.name(i), reducer.parameter(i)});
  }
  if (communicator->world_size() > 1) check_equal_across_ranks(*communicator, chosen, "parameter of the optimizer");
  if (chosen.empty()) {
    reason = "no bucket holds nothing but contiguous fp32 or fp64 parameters of the optimizer on the CPU";
    fused->optimizer_ = nullptr;
    return nullptr;
  }
  try {
    fused->take_over(options);
  } catch (const Error& error) {
    // Memory is short on some rank, and all ranks know it. If instead the group has ended, the next call reports that.
    reason = error.happened();
    fused->release();
    return nullptr;
  }
  return fused;
}

void FusedStep::choose_buckets() {
  const auto known = parameters_of(*optimizer_);
  std::vector<at::Tensor> chosen;
  bool any_known = false;
  for (StepBucket& bucket : reducer_.step_buckets()) {
    bool takes = true;
    for (const std::size_t i : bucket.parameters) {
      const at::Tensor& parameter = reducer_.parameter(i);
      const bool is_known = known.count(parameter.unsafeGetTensorImpl()) != 0;
      any_known = any_known || is_known;
      takes = takes && is_known && can_be_fused(parameter);
    }
    if (!takes) continue;
    for (const std::size_t i : bucket.parameters) chosen.push_back(reducer_.parameter(i));
    FusedBucket fused;
    const std::int64_t share = bucket.memory.numel() / communicator_->world_size();
    fused.begin = share * communicator_->rank();
    fused.end = fused.begin + share;
    fused.gradients = std::move(bucket);
    buckets_.push_back(std::move(fused));
  }
  if (!any_known) {
    throw Error("the optimizer has none of the module's parameters that require a gradient",
                communicator_->membership().where() + ", fuse",
                "build the optimizer over the parameters of the module that is wrapped");
  }
  check_no_shared_memory(chosen);
}

void FusedStep::take_over(FuseOptions options) {
  place_gradients(options.gradient_dtype);
  memory_ = make_fused_memory(buckets_, reducer_, *communicator_, options.share_weights);
  std::vector<std::size_t> indices;
  std::vector<FusedSegment> segments;
  for (const FusedBucket& bucket : buckets_) {
    indices.push_back(bucket.gradients.index);
    FusedSegment segment{{}, bucket.gradients.offsets, bucket.begin, bucket.end};
    for (const std::size_t i : bucket.gradients.parameters) {
      segment.parameters.push_back(reducer_.parameter(i));
      covered_.emplace(reducer_.parameter(i).unsafeGetTensorImpl(), i);
    }
    segments.push_back(std::move(segment));
  }
  optimizer_->shard(std::move(segments));
  optimizer_->set_step_delegate(this);
  reducer_.leave_to_step(indices);
  watch();
  // Shared memory needs no messages that backward could hide.
  if (memory_->shares_weights()) return;
  reducer_.reduce_for_step_in_backward([this, indices](std::size_t bucket) {
    const auto found = std::find(indices.begin(), indices.end(), bucket);
    return memory_->begin_reduction(static_cast<std::size_t>(found - indices.begin()));
  });
}

void FusedStep::watch() {
  std::vector<at::Tensor> watched(reducer_.num_parameters());
  for (const auto& entry : covered_) watched[entry.second] = reducer_.parameter(entry.second);
  watch_ = std::make_unique<FusedWatch>(std::move(watched));
  reducer_.watch_gradients_for_step([this](std::size_t index) { watch_->gradient_arrived(index); });
}

// fp64 weights keep gradients in fp64.
void FusedStep::place_gradients(at::ScalarType dtype) {
  for (FusedBucket& bucket : buckets_) {
    const at::ScalarType own = reducer_.parameter(bucket.gradients.parameters.front()).scalar_type();
    reducer_.set_gradient_dtype({bucket.gradients.index}, own == at::ScalarType::Float ? dtype : own);
  }
  const auto all = reducer_.step_buckets();
  for (FusedBucket& bucket : buckets_) bucket.gradients.memory = all[bucket.gradients.index].memory;
}

void FusedStep::release() noexcept {
  if (optimizer_ == nullptr) return;
  if (optimizer_->step_delegate() == this) optimizer_->set_step_delegate(nullptr);
  optimizer_ = nullptr;
  try {
    const at::NoGradGuard no_grad;
    reducer_.take_back_from_step();
    for (const FusedBucket& bucket : buckets_) {
      if (!memory_ || !memory_->shares_weights()) break;
      const auto* from = static_cast<const std::byte*>(bucket.weights.data_ptr());
      const at::Tensor own = bucket.weights.clone();
      for (std::size_t i = 0; i < bucket.gradients.parameters.size(); ++i) {
        at::Tensor parameter = reducer_.parameter(bucket.gradients.parameters[i]);
        const std::int64_t offset = bucket.gradients.offsets[i];
        const bool is_here = parameter.data_ptr() == from + static_cast<std::size_t>(offset) * own.element_size();
        if (is_here) parameter.set_data(memory_piece(own, offset, parameter.sizes()));
      }
    }
  } catch (const std::exception& error) {
    log_warning("the weights stay in memory that the ranks share: {}", error.what());
  }
  memory_.reset();
}

void FusedStep::optimizer_destroyed() noexcept {
  optimizer_->set_step_delegate(nullptr);
  release();
}

void FusedStep::unfuse() {
  guarded([&] {
    FlatOptimizer& optimizer = *optimizer_;
    const NamedParameters names = numbered_parameters(optimizer);
    const NamedState state = gather_optimizer_state(*communicator_, optimizer, names);
    release();
    optimizer.unshard(names, state);
    // No rank may write its weights before all ranks have their own.
    if (communicator_->world_size() > 1) communicator_->barrier();
  });
}

}  // namespace lockstep
