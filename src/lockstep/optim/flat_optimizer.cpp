#include "lockstep/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/gradient_memory.h"
#include "lockstep/optim/optimizer_registry.h"

namespace lockstep {
namespace {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

bool kernels_take(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::ScalarType weights = parameter.scalar_type();
  const at::ScalarType values = gradient.scalar_type();
  const bool halves = values == at::ScalarType::BFloat16 || values == at::ScalarType::Half;
  return is_plain_memory(parameter) && is_plain_memory(gradient) &&
         ((weights == at::ScalarType::Float && (values == weights || halves)) ||
          (weights == at::ScalarType::Double && values == weights));
}

void check_gradient(const at::Tensor& parameter, const at::Tensor& gradient, std::size_t group, std::size_t index) {
  const std::string where = fmt::format("parameter {} of group {}", index, group);
  if (gradient.layout() != at::kStrided) {
    throw Error("the gradient is sparse", where, "build the embedding with sparse(false)");
  }
  if (gradient.sizes() != parameter.sizes()) {
    std::ostringstream what;
    what << "the gradient has shape " << gradient.sizes() << ", the parameter " << parameter.sizes();
    throw Error(what.str(), where, "replace gradients by tensors of the parameter's shape only");
  }
}

void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

/// A parameter in one step.
struct FlatOptimizer::Piece {
  StateSlot* slot;
  std::size_t group;
  at::Tensor gradient;  // in the parameter's memory order
  at::Tensor original;  // the gradient itself, where it has another order; else undefined
  bool plain;           // the kernels can walk it
};

at::Tensor FlatOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  step_with(StepOptions{});
  return loss;
}

FlatOptimizer::FlatOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                             std::unique_ptr<OptimizerOptions> defaults)
    : torch::optim::Optimizer(std::move(groups), std::move(defaults)) {
  for (const auto& group : param_groups_) optimizer_registry::add(*this, group.params());
}

FlatOptimizer::~FlatOptimizer() {
  optimizer_registry::remove(*this);
  if (delegate_ != nullptr) delegate_->optimizer_destroyed();
}

StepResult FlatOptimizer::step_with(const StepOptions& options) {
  if (delegate_ != nullptr) return delegate_->step(options);
  if (is_sharded()) {
    throw Error("this rank holds a part of the optimizer's state, and what updated the others' parts is gone",
                "fused optimizer", "call unfuse before the DistributedDataParallel goes, or build a new optimizer");
  }
  return step_local(options);
}

StepResult FlatOptimizer::step_local(const StepOptions& options) {
  const at::NoGradGuard no_grad;
  std::vector<Piece> pieces = pieces_with_gradients();
  StepResult result;
  double factor = options.gradient_factor;
  if (options.max_norm != 0 || options.check_finite) {
    std::vector<at::Tensor> parameters;
    for (const Piece& piece : pieces) parameters.push_back(piece.slot->parameter);
    const GradientMemory gradients(parameters);
    if (options.max_norm != 0) {
      result.norm = std::abs(options.gradient_factor) * gradients.norm(2);
      factor *= clip_factor(result.norm, options.max_norm);
      result.skipped = options.check_finite && !std::isfinite(result.norm);
    } else {
      result.skipped = !gradients.all_finite();
    }
  }
  if (result.skipped) {
    if (options.zero_grad) zero_pieces(pieces);
    return result;
  }
  prepare_state(pieces);
  update_pieces(pieces, factor, options.zero_grad);
  return result;
}

void FlatOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::Optimizer::add_param_group(group);
  optimizer_registry::add(*this, group.params());
}

void FlatOptimizer::zero_grad() {
  if (delegate_ != nullptr) {
    if (delegate_->gradients_are_zero()) return;
    delegate_->gradients_dropped();
  }
  const at::NoGradGuard no_grad;
  for (auto& group : param_groups_) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      if (gradient.requires_grad()) gradient = gradient.detach();  // of backward with create_graph
      gradient.zero_();
    }
  }
}

void FlatOptimizer::zero_pieces(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) (piece.original.defined() ? piece.original : piece.gradient).zero_();
}

std::vector<FlatOptimizer::Piece> FlatOptimizer::pieces_with_gradients() {
  std::vector<Piece> pieces;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& parameters = param_groups_[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& parameter = parameters[i];
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      StateSlot& slot = states_.get(parameter);
      if (slot.is_part) continue;
      check_gradient(parameter, gradient, group, i);
      Piece piece{&slot, group, gradient.detach(), at::Tensor(), kernels_take(parameter, gradient)};
      if (piece.plain && !same_memory_order(parameter, gradient)) {
        piece.original = piece.gradient;
        piece.gradient = at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options());
        piece.gradient.copy_(piece.original);
      }
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

// Takes over state that someone replaced or removed through `state()`.
void FlatOptimizer::refresh_state(StateSlot& slot) {
  const auto found = state_.find(slot.torch_key);
  if (found == state_.end()) {
    if (slot.shown) forget(slot);
    return;
  }
  Buffers given;
  std::int64_t step = slot.step;
  read_torch_state(*found->second, given, step);
  bool own = slot.shown && step == slot.step;
  for (std::size_t i = 0; i < given.size(); ++i) own = own && given[i].is_same(slot.buffers[i]);
  if (own) return;
  forget(slot);
  set_buffers(slot, given);
  slot.step = step;
  show_state(slot);
}

void FlatOptimizer::set_buffers(StateSlot& slot, const Buffers& values) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].defined()) count = i + 1;
  }
  StateStore::allocate({{&slot, count}});
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i].defined()) slot.buffers[i].copy_(values[i]);
  }
  slot.first = false;
}

void FlatOptimizer::forget(StateSlot& slot) {
  slot.buffers = {};
  slot.step = 0;
  slot.first = false;
  hide_state(slot);
}

void FlatOptimizer::show_state(StateSlot& slot) {
  state_[slot.torch_key] = make_torch_state(slot.buffers, slot.step);
  slot.shown = true;
}

void FlatOptimizer::hide_state(StateSlot& slot) {
  state_.erase(slot.torch_key);
  slot.shown = false;
}

void FlatOptimizer::prepare_state(std::vector<Piece>& pieces) {
  std::vector<std::pair<StateSlot*, std::size_t>> wanted;
  for (const Piece& piece : pieces) {
    refresh_state(*piece.slot);
    const std::size_t count = num_buffers(param_groups_[piece.group].options());
    if (count > 0 && !piece.slot->buffers[count - 1].defined()) wanted.emplace_back(piece.slot, count);
  }
  StateStore::allocate(wanted);
  for (const auto& [slot, count] : wanted) show_state(*slot);
}

void FlatOptimizer::update_pieces(const std::vector<Piece>& pieces, double factor, bool zero) {
  RunList runs;
  for (const Piece& piece : pieces) {
    StateSlot& slot = *piece.slot;
    ++slot.step;
    if (slot.shown) set_torch_step(*state_[slot.torch_key], slot.step);
    if (piece.plain) {
      runs.add(make_run(slot, piece.group, piece.gradient));
    } else {
      const at::Tensor gradient = factor == 1 ? piece.gradient : piece.gradient.mul(factor);
      update_tensor(param_groups_[piece.group].options(), slot.parameter, gradient, slot.buffers, slot.step,
                    slot.first);
    }
    slot.first = false;
  }
  GradientSource gradient;
  gradient.factor = factor;
  gradient.zero = zero;
  run_kernels(runs, gradient);
  for (const Piece& piece : pieces) {
    if (piece.plain) bump_version(piece.slot->parameter);
    if (zero && piece.plain) bump_version(piece.gradient);
    if (zero && !piece.plain) piece.gradient.zero_();
    if (zero && piece.original.defined()) piece.original.zero_();
  }
}

// Without the elements' place in `slot`: all of the parameter.
UpdateRun FlatOptimizer::make_run(const StateSlot& slot, std::size_t group, const at::Tensor& gradient) {
  UpdateRun run;
  run.group = group;
  run.step = slot.step;
  run.first = slot.first;
  run.numel = static_cast<std::size_t>(slot.parameter.numel());
  element_type_of(slot.parameter.scalar_type(), run.type);
  element_type_of(gradient.scalar_type(), run.gradient_type);
  run.param = bytes_of(slot.parameter);
  run.param_out = bytes_of(slot.parameter);
  for (std::size_t i = 0; i < slot.buffers.size(); ++i) {
    if (slot.buffers[i].defined()) run.buffers[i] = bytes_of(slot.buffers[i]);
  }
  run.sources.push_back(gradient.data_ptr());
  return run;
}

void FlatOptimizer::run_kernels(const RunList& runs, const GradientSource& gradient) const {
  runs.execute([&](const UpdateRun& run, std::size_t begin, std::size_t end) {
    GradientSource source = gradient;
    source.sources = run.sources.data();
    source.num_sources = run.sources.size();
    source.type = run.gradient_type;
    update_run(param_groups_[run.group].options(), run, source, begin, end);
  });
}

void FlatOptimizer::refresh_all_state() {
  const at::NoGradGuard no_grad;
  for (const auto& group : param_groups_) {
    for (const at::Tensor& parameter : group.params()) refresh_state(states_.get(parameter));
  }
}

}  // namespace lockstep
