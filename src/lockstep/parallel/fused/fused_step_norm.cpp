// FusedStep: norms of the gradients averaged over all ranks, and clipping by them.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/optim/gradient_memory.h"
#include "lockstep/parallel/fused/fused_step.h"

namespace lockstep {
namespace {

double reduce_number(Communicator& communicator, double value, ReduceOp op) {
  if (communicator.world_size() == 1) return value;
  at::Tensor number = at::empty({1}, at::TensorOptions().dtype(at::kDouble));
  double* content = number.data_ptr<double>();
  *content = value;
  communicator.all_reduce(number, op);
  return *content;
}

}  // namespace

double FusedStep::gradient_norm(const std::vector<at::Tensor>& parameters, double norm_type) {
  return guarded([&] {
    StepRequest request;
    request.kind = StepRequest::Kind::Norm;
    request.norm_type = norm_type;
    request.selection = select(parameters);
    agree(&request);
    return run_norm();
  });
}

void FusedStep::scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  guarded([&] {
    StepRequest request;
    request.kind = StepRequest::Kind::Scale;
    request.factor = factor;
    request.selection = select(parameters);
    agree(&request);
    run_scale();
  });
}

// Marks the parameters, and returns a number that differs on ranks that mark others (Fowler, Noll and Vo's hash).
std::uint64_t FusedStep::select(const std::vector<at::Tensor>& parameters) {
  std::fill(selected_.begin(), selected_.end(), std::uint8_t{0});
  for (const at::Tensor& parameter : parameters) selected_[covered_.at(parameter.unsafeGetTensorImpl())] = 1;
  std::uint64_t number = 0xcbf29ce484222325;
  for (const std::uint8_t mark : selected_) number = (number ^ mark) * 0x100000001b3;
  return number;
}

// Ranks without inputs received no list of parameters.
void FusedStep::share_selection() {
  at::Tensor marks = at::from_blob(selected_.data(), {static_cast<std::int64_t>(selected_.size())},
                                   at::TensorOptions().dtype(at::kByte));
  communicator_->broadcast(marks, agreement_.lowest_active_rank());
}

double FusedStep::run_norm() {
  const double p = agreement_.request().norm_type;
  double norm = 0;
  if (p == 0) {
    // Known on every rank since the agreement.
    for (std::size_t i = 0; i < selected_.size(); ++i) norm += selected_[i] * agreement_.contributed()[i];
  } else {
    norm = norm_of(selected_gradients(), 0, p);
  }
  memory_->finish();
  return norm;
}

void FusedStep::run_scale() {
  const double factor = agreement_.request().factor;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const StepBucket& gradients = buckets_[b].gradients;
    void* memory = gradients.memory.data_ptr();
    GradientSource source;
    source.sources = &memory;
    element_type_of(gradients.memory.scalar_type(), source.type);
    source.factor = factor;
    for (std::size_t i = 0; i < gradients.parameters.size(); ++i) {
      if (selected_[gradients.parameters[i]] == 0) continue;
      const std::int64_t begin = gradients.offsets[i];
      const std::int64_t end = begin + reducer_.parameter(gradients.parameters[i]).numel();
      scale_in_place(source, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
      memory_->follow_scaling(b, begin, end, factor);
    }
  }
  watch_->take_gradients();
}

OwnedGradients FusedStep::owned_gradients(std::size_t bucket) {
  OwnedGradients part;
  part.source = memory_->gradients(bucket);
  part.source.divisor = reducer_.divides_by_active_ranks() ? agreement_.active_ranks() : communicator_->world_size();
  part.begin = static_cast<std::size_t>(buckets_[bucket].begin);
  part.end = static_cast<std::size_t>(buckets_[bucket].end);
  return part;
}

std::vector<OwnedGradients> FusedStep::owned_gradients() {
  std::vector<OwnedGradients> parts;
  for (std::size_t i = 0; i < buckets_.size(); ++i) parts.push_back(owned_gradients(i));
  return parts;
}

std::vector<OwnedGradients> FusedStep::selected_gradients() {
  std::vector<OwnedGradients> parts;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const StepBucket& gradients = buckets_[b].gradients;
    const OwnedGradients all = owned_gradients(b);
    const auto is_selected = [&](std::size_t parameter) { return selected_[parameter] != 0; };
    if (std::all_of(gradients.parameters.begin(), gradients.parameters.end(), is_selected)) {
      parts.push_back(all);
      continue;
    }
    for (std::size_t i = 0; i < gradients.parameters.size(); ++i) {
      if (!is_selected(gradients.parameters[i])) continue;
      OwnedGradients part = all;
      const auto first = static_cast<std::size_t>(gradients.offsets[i]);
      const auto numel = static_cast<std::size_t>(reducer_.parameter(gradients.parameters[i]).numel());
      part.begin = std::max(all.begin, first);
      part.end = std::min(all.end, first + numel);
      if (part.begin < part.end) parts.push_back(part);
    }
  }
  return parts;
}

// Covers the average of all ranks' gradients, and gradients that are equal on all ranks already; one rank counts these.
double FusedStep::global_norm(double p) {
  const GradientMemory others(other_parameters());
  const bool counts_others = communicator_->rank() == agreement_.lowest_active_rank() && others.count() > 0;
  return norm_of(owned_gradients(), counts_others ? others.norm(p) : 0, p);
}

// @param own  the norm of the gradients that this rank adds
double FusedStep::norm_of(const std::vector<OwnedGradients>& parts, double own, double p) {
  double value = 0;
  if (p == std::numeric_limits<double>::infinity()) {
    memory_->access([&] { value = max_abs(parts); });
    return reduce_number(*communicator_, std::isnan(own) || own > value ? own : value, ReduceOp::Max);
  }
  memory_->access([&] { value = p == 2 ? sum_of_squares(parts) : sum_of_powers(parts, p); });
  const double sum = reduce_number(*communicator_, value + std::pow(own, p), ReduceOp::Sum);
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

bool FusedStep::global_all_finite() {
  const auto parts = owned_gradients();
  bool finite = GradientMemory(other_parameters()).all_finite();
  memory_->access([&] { finite = all_finite(parts) && finite; });
  return reduce_number(*communicator_, finite ? 0 : 1, ReduceOp::Max) == 0;
}

}  // namespace lockstep
