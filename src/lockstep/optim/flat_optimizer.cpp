#include "lockstep/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/optim/clip_bound.h"
#include "lockstep/optim/optimizer_registry.h"
#include "lockstep/optim/update/dropped_gradients.h"
#include "lockstep/optim/update/local_update.h"
#include "lockstep/optim/update/optimizer_state.h"
#include "lockstep/optim/update/sharded_update.h"

namespace lockstep {

struct FlatOptimizer::Parts {
  Parts(torch::optim::Optimizer& optimizer, std::unique_ptr<const UpdateRule> rule)
      : state(optimizer, std::move(rule)), sharded(state) {}

  OptimizerState state;
  ShardedUpdate sharded;
  DroppedGradients dropped;
};

FlatOptimizer::FlatOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                             std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                             std::unique_ptr<const UpdateRule> rule)
    : torch::optim::Optimizer(std::move(groups), std::move(defaults)),
      parts_(std::make_unique<Parts>(*this, std::move(rule))) {
  for (const auto& group : param_groups_) optimizer_registry::add(*this, group.params());
}

FlatOptimizer::~FlatOptimizer() {
  optimizer_registry::remove(*this);
  if (delegate_ != nullptr) delegate_->optimizer_destroyed();
}

at::Tensor FlatOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  step_with(StepOptions{});
  return loss;
}

StepResult FlatOptimizer::step_with(const StepOptions& options) {
  const trace_recorder::Scope trace(TraceKind::Update);
  check_clip_bound(options.max_norm, "StepOptions::max_norm", "step_with");
  if (delegate_ != nullptr) return delegate_->step(options);
  if (is_sharded()) {
    throw Error(
        "this rank has only a part of the optimizer's state, and the wrapper that updated the other parts is gone",
        "fused optimizer", "call unfuse before the DistributedDataParallel is destroyed, or build a new optimizer");
  }
  return step_local(options);
}

StepResult FlatOptimizer::step_local(const StepOptions& options) {
  parts_->dropped.bring_back(param_groups_);
  const StepResult result = LocalUpdate(param_groups_, parts_->state).run(options);
  if (!options.zero_grad) return result;
  for (auto& group : param_groups_) {
    for (at::Tensor& parameter : group.params()) parts_->dropped.drop(parameter);
  }
  return result;
}

void FlatOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::Optimizer::add_param_group(group);
  optimizer_registry::add(*this, group.params());
}

void FlatOptimizer::zero_grad() {
  ++zero_grads_;
  if (delegate_ != nullptr) {
    if (delegate_->gradients_are_zero()) return;
    delegate_->gradients_dropped();
  }
  const at::NoGradGuard no_grad;
  for (auto& group : param_groups_) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined() || parts_->dropped.drop(parameter)) continue;
      if (gradient.requires_grad()) gradient = gradient.detach();  // from backward with create_graph
      gradient.zero_();
    }
  }
}

void FlatOptimizer::save(torch::serialize::OutputArchive& archive) const {
  throw_if_sharded("save");
  const auto same = parts_->state.rule().make_torch_optimizer(param_groups(), defaults());
  parts_->state.copy_to(*same);
  same->save(archive);
}

void FlatOptimizer::load(torch::serialize::InputArchive& archive) {
  throw_if_sharded("load");
  parts_->state.rule().load(archive, *this);
  parts_->state.refresh_all();
}

std::vector<std::string> FlatOptimizer::state_names() const { return parts_->state.names(); }

NamedState FlatOptimizer::named_state(const NamedParameters& names) const { return parts_->state.named(names); }

void FlatOptimizer::load_named_state(const NamedParameters& names, const NamedState& state) {
  if (parts_->sharded.shares_state()) throw_if_sharded("load_named_state in a job that survives lost ranks");
  parts_->state.load_named(names, state);
}

void FlatOptimizer::load_named_state(const NamedParameters& names, const std::vector<NamedState>& parts) {
  if (parts_->sharded.shares_state()) throw_if_sharded("load_named_state in a job that survives lost ranks");
  parts_->state.load_named(names, parts);
}

bool FlatOptimizer::is_sharded() const { return !parts_->sharded.is_empty(); }

void FlatOptimizer::shard(std::vector<FusedSegment> segments) {
  parts_->sharded.take(param_groups_, std::move(segments));
}

void FlatOptimizer::unshard(const NamedParameters& names, const NamedState& whole) {
  parts_->sharded.clear();
  load_named_state(names, whole);
}

void FlatOptimizer::update_segment(std::size_t index, const SegmentUpdate& update) {
  parts_->sharded.update(index, update);
}

std::vector<std::map<std::string, double>> FlatOptimizer::group_options() const {
  std::vector<std::map<std::string, double>> result;
  for (const auto& group : param_groups_) result.push_back(parts_->state.rule().option_values(group.options()));
  return result;
}

void FlatOptimizer::load_group_options(const std::vector<std::map<std::string, double>>& options) {
  if (options.size() != param_groups_.size()) {
    throw Error(
        fmt::format("there are {} parameter groups here, but {} in the state", param_groups_.size(), options.size()),
        "options of an optimizer", "build the optimizer with the groups that the state was saved with");
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    const auto expected = parts_->state.rule().option_values(param_groups_[i].options());
    const bool same = expected.size() == options[i].size() &&
                      std::equal(expected.begin(), expected.end(), options[i].begin(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) {
      throw Error(fmt::format("the options of group {} are not those of this kind of optimizer", i),
                  "options of an optimizer", "build the kind of optimizer that the state was saved with");
    }
    parts_->state.rule().set_option_values(param_groups_[i].options(), options[i]);
  }
}

void FlatOptimizer::throw_if_sharded(const std::string& operation) const {
  if (!is_sharded()) return;
  throw Error(operation + " needs all of the optimizer's state, but ranks hold a part of it each", "fused optimizer",
              "call ddp.fused_step().unfuse() on every rank before it, and ddp.fuse(optimizer) after it; state by name "
              "needs neither: "
              "ddp.optimizer_state(optimizer) gives all of it on every rank, named_state this rank's part");
}

}  // namespace lockstep
