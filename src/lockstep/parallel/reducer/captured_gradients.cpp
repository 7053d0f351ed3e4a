#include "lockstep/parallel/reducer/captured_gradients.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "lockstep/comm/communicator/reduced_elements.h"

namespace lockstep {
namespace {

// Twice: who wraps a model to evaluate it may write weights once.
constexpr std::uint64_t kWritesOfATraining = 2;

constexpr const char* kHowToAverage =
    "Average such gradients before they are used, for (auto& gradient : gradients) "
    "lockstep::default_group()->all_reduce(gradient, lockstep::ReduceOp::Avg), or call backward() and read grad()";

}  // namespace

CapturedGradients::CapturedGradients(std::vector<NamedTensor> parameters)
    : parameters_(std::move(parameters)), writes_(parameters_.size()), alone_(parameters_.size(), false) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) add(begin_, i);
  begin_.reduced_elements = reduced_elements();
}

void CapturedGradients::add(Captured& captured, std::size_t parameter) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  captured.parameters.push_back(parameter);
  captured.writes.push_back(writes_[parameter].look(tensor));
  captured.numel += tensor.numel();
}

// Looked at before the step that uses this gradient: so the writes of LibTorch's SGD are counted one by one.
void CapturedGradients::arrived_alone(std::size_t parameter, bool may_be_all) {
  alone_[parameter] = true;
  if (may_be_all) writes_[parameter].look(parameters_[parameter].tensor);
}

void CapturedGradients::look_at_backward() {
  if (has_reported_) return;
  const auto* tasks = torch::autograd::get_current_graph_task_exec_info();
  if (tasks == nullptr || tasks->empty()) return;  // a plain backward()
  Captured captured;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameters_[i].tensor);
    const auto found = accumulator ? tasks->find(&*accumulator) : tasks->end();
    if (found != tasks->end() && found->second.captures_) add(captured, i);
  }
  if (captured.parameters.empty()) return;
  captured.reduced_elements = reduced_elements();
  captured_ = std::move(captured);
}

bool CapturedGradients::are_used(const Captured& since, bool all, std::uint64_t writes) {
  if (reduced_elements() - since.reduced_elements >= since.numel) return false;
  std::size_t written = 0;
  for (std::size_t k = 0; k < since.parameters.size(); ++k) {
    const std::uint64_t now = writes_[since.parameters[k]].look(parameters_[since.parameters[k]].tensor);
    written += now - since.writes[k] >= writes ? 1 : 0;
  }
  return all ? written == since.parameters.size() : written > 0;
}

std::optional<std::string> CapturedGradients::take_report() {
  if (!captured_ || has_reported_ || !are_used(*captured_, /*all=*/false, 1)) return std::nullopt;
  has_reported_ = true;
  return fmt::format(
      "the gradient of parameter \"{}\" was taken by torch::autograd::grad, and then the parameter or others were "
      "written: such gradients are of this rank's loss alone, since only those that backward() adds to `grad` are "
      "averaged, so the replicas are different models now. {}",
      parameters_[captured_->parameters.front()].name, kHowToAverage);
}

std::optional<std::string> CapturedGradients::report_of_end(bool was_synchronised,
                                                            const std::function<bool(std::size_t)>& is_elsewhere) {
  if (has_reported_ || parameters_.empty()) return std::nullopt;
  if (ever_arrived_) return was_synchronised ? std::nullopt : report_of_no_sync(is_elsewhere);
  if (!are_used(begin_, /*all=*/true, kWritesOfATraining)) return std::nullopt;
  return fmt::format(
      "all parameters, \"{}\" among them, were written several times, and no backward() has added to their gradients, "
      "so "
      "nothing was averaged: if the model was trained by torch::autograd::grad, each rank has trained a model of its "
      "own. {}",
      parameters_.front().name, kHowToAverage);
}

std::optional<std::string> CapturedGradients::report_of_no_sync(const std::function<bool(std::size_t)>& is_elsewhere) {
  Captured since;
  since.reduced_elements = begin_.reduced_elements;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!alone_[i] || is_elsewhere(i)) continue;
    since.parameters.push_back(i);
    since.writes.push_back(begin_.writes[i]);
    since.numel += parameters_[i].tensor.numel();
  }
  if (since.parameters.empty() || !are_used(since, /*all=*/true, kWritesOfATraining)) return std::nullopt;
  return fmt::format(
      "every backward was in no_sync, and yet {} of the parameters, \"{}\" among them, were written several times: "
      "each "
      "rank has trained a model of its own, because nothing was averaged. Run the last forward before each step, and "
      "its backward, without no_sync; or average the gradients before the step, each by "
      "lockstep::default_group()->all_reduce(parameter.mutable_grad(), lockstep::ReduceOp::Avg)",
      since.parameters.size(), parameters_[since.parameters.front()].name);
}

}  // namespace lockstep
