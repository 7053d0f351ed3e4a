#include "lockstep/optim/update/local_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {
namespace {

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
    throw Error(
        "the gradient is sparse", where,
        "give this parameter to a torch::optim::SGD or Adagrad, which update from sparse gradients, or build the "
        "embedding with sparse(false)");
  }
  if (gradient.sizes() != parameter.sizes()) {
    std::ostringstream what;
    what << "the gradient has shape " << gradient.sizes() << ", the parameter " << parameter.sizes();
    throw Error(what.str(), where, "replace gradients by tensors of the parameter's shape only");
  }
}

// The optimizer drops gradients on devices instead (DroppedGradients).
void zero_on_host(at::Tensor gradient) {
  if (!gradient.is_cuda()) gradient.zero_();
}

void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

// A run over the slot's whole parameter.
UpdateRun run_of(const StateSlot& slot, std::size_t group, const at::Tensor& gradient) {
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

// Tensors that one operation of LibTorch over a list takes together.
using UpdateKind = std::tuple<std::size_t, std::int64_t, bool, std::string, at::ScalarType, at::ScalarType>;

UpdateKind kind_of(const StateSlot& slot, std::size_t group, const at::Tensor& gradient) {
  return {group,
          slot.step,
          slot.first,
          slot.parameter.device().str(),
          slot.parameter.scalar_type(),
          gradient.scalar_type()};
}

void add_to(TensorUpdate& update, const StateSlot& slot, const at::Tensor& gradient) {
  update.step = slot.step;
  update.first = slot.first;
  update.parameters.push_back(slot.parameter);
  update.gradients.push_back(gradient);
  for (std::size_t i = 0; i < slot.buffers.size(); ++i) {
    if (slot.buffers[i].defined()) update.buffers[i].push_back(slot.buffers[i]);
  }
}

}  // namespace

LocalUpdate::LocalUpdate(const std::vector<torch::optim::OptimizerParamGroup>& groups, OptimizerState& state)
    : state_(state) {
  const at::NoGradGuard no_grad;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& parameters = groups[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].grad().defined()) add(parameters[i], group, i);
    }
  }
}

void LocalUpdate::add(const at::Tensor& parameter, std::size_t group, std::size_t index) {
  StateSlot& slot = state_.slots().get(parameter);
  if (slot.is_part) return;
  const at::Tensor& gradient = parameter.grad();
  check_gradient(parameter, gradient, group, index);
  Piece piece{&slot, group, gradient.detach(), at::Tensor(), kernels_take(parameter, gradient)};
  if (piece.plain && !same_memory_order(parameter, gradient)) {
    piece.original = piece.gradient;
    piece.gradient = at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options());
    piece.gradient.copy_(piece.original);
  }
  pieces_.push_back(std::move(piece));
}

StepResult LocalUpdate::run(const StepOptions& options) {
  const at::NoGradGuard no_grad;
  StepResult result;
  double factor = options.gradient_factor;
  if (options.max_norm != 0 || options.check_finite) {
    std::vector<at::Tensor> parameters;
    for (const Piece& piece : pieces_) parameters.push_back(piece.slot->parameter);
    const GradientMemory gradients(parameters);
    if (options.max_norm != 0) {
      result.norm = std::abs(options.gradient_factor) * gradients.norm(2);
      factor *= clip_factor(result.norm, options.max_norm);
      result.skipped = options.check_finite && !std::isfinite(result.norm);
    } else {
      result.skipped = !gradients.all_finite();
    }
  }
  if (!result.skipped) {
    update(factor, options.zero_grad);
  } else if (options.zero_grad) {
    zero_gradients();
  }
  return result;
}

void LocalUpdate::zero_gradients() const {
  for (const Piece& piece : pieces_) zero_on_host(piece.original.defined() ? piece.original : piece.gradient);
}

void LocalUpdate::update(double factor, bool zero) {
  std::vector<std::pair<StateSlot*, std::size_t>> slots;
  for (const Piece& piece : pieces_) slots.emplace_back(piece.slot, piece.group);
  state_.prepare(slots);
  RunList runs;
  std::map<UpdateKind, TensorUpdate> updates;
  for (const Piece& piece : pieces_) {
    StateSlot& slot = *piece.slot;
    state_.count_update(slot);
    if (piece.plain) {
      runs.add(run_of(slot, piece.group, piece.gradient));
    } else {
      add_to(updates[kind_of(slot, piece.group, piece.gradient)], slot, piece.gradient);
    }
    slot.first = false;
  }
  for (auto& [kind, update] : updates) {
    if (factor != 1) update.gradients = at::_foreach_mul(update.gradients, factor);
    state_.rule().update_tensors(state_.options(std::get<0>(kind)), update);
  }
  GradientSource gradient;
  gradient.factor = factor;
  gradient.zero = zero;
  state_.update(runs, gradient);
  for (const Piece& piece : pieces_) {
    bump_version(piece.slot->parameter);
    if (zero && piece.plain) bump_version(piece.gradient);
    if (zero && !piece.plain) zero_on_host(piece.gradient);
    if (zero && piece.original.defined()) zero_on_host(piece.original);
  }
}

}  // namespace lockstep
