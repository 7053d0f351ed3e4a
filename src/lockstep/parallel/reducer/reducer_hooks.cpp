// Reducer: learns of gradients, also after parameters got other memory.
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {
namespace {

// The state that a backward changes by adding to a gradient.
struct GradientState {
  explicit GradientState(const at::Tensor& parameter)
      : memory(parameter.grad().unsafeGetTensorImpl()),
        version(parameter.grad().defined() ? parameter.grad()._version() : 0) {}
  bool operator==(const GradientState& other) const { return memory == other.memory && version == other.version; }
  const c10::TensorImpl* memory;
  std::uint64_t version;
};

}  // namespace

std::shared_ptr<Reducer> Reducer::make(std::vector<NamedTensor> parameters, std::vector<NamedTensor> sparse,
                                       std::shared_ptr<Communicator> communicator, ReducerOptions options) {
  std::shared_ptr<Reducer> reducer(
      new Reducer(std::move(parameters), std::move(sparse), std::move(communicator), options));
  reducer->install_hooks();
  return reducer;
}

Reducer::~Reducer() {
  for (auto& parameter : parameters_) {
    if (!parameter.tripwire) continue;
    try {
      parameter.tensor.remove_hook(*parameter.tripwire);
    } catch (const std::exception&) {
      // An in-place operation has already removed it.
    }
  }
}

// Autograd must not keep the reducer alive, nor rely on its existence.
void Reducer::install_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].hook = std::make_unique<AccumulatorHook>(parameters_[i].tensor, [weak = weak_from_this(), i] {
      if (const auto self = weak.lock()) self->on_gradient(i);
    });
  }
  sparse_.watch([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_sparse_gradient();
  });
}

void Reducer::follow_parameters() {
  std::size_t moved = sparse_.follow();
  for (auto& parameter : parameters_) {
    if (parameter.hook->is_current()) continue;
    parameter.hook->follow();
    ++moved;
  }
  if (moved == 0) return;
  moved_ = true;
  log_debug("{} of {} parameters got other memory (torch::load or set_): their gradients are followed there", moved,
            parameters_.size() + sparse_.size());
}

void Reducer::watch_output(const at::Tensor& output) {
  if (!synchronise_ || !output.defined() || !output.requires_grad()) return;
  awaits_backward_ = true;
  // The backward that starts at the output is the outermost one. Hooks of parameters inside a re-entrant backward
  // (activation checkpointing) see only the inner one, whose end is not the end of the step.
  output.register_hook([weak = weak_from_this()](const at::Tensor&) {
    const auto self = weak.lock();
    if (!self) {
      throw Error(
          "backward goes through an output of a DistributedDataParallel that is destroyed, so that nobody would "
          "average its gradients",
          "DistributedDataParallel", "keep the wrapper until backward has returned");
    }
    const std::lock_guard<std::mutex> lock(self->mutex_);
    if (self->in_backward_ && self->engine_task_.expired()) self->drop_backward();
    if (self->synchronise_ && !self->in_backward_) self->begin_backward();
  });
}

void Reducer::follow_backward(std::function<void()> at_begin, std::function<void()> at_end) {
  at_begin_ = std::move(at_begin);
  at_end_ = std::move(at_end);
  if (!std::exchange(follows_backward_, true)) set_tripwires();
}

// Without a forward through the wrapper nothing checks whether the hooks are still in place: if all parameters got
// other memory, none is called. A hook on the tensor itself stays, and sees the gradient before it is accumulated. But
// such a hook prevents functions from adding to large gradients in place (gradient_in_place.h), so matrices get no such
// hook unless there are no other parameters: one hook that is called is enough for all.
void Reducer::set_tripwires() {
  const auto is_small = [](const Parameter& parameter) { return parameter.tensor.dim() <= 1; };
  const bool any_small = std::any_of(parameters_.begin(), parameters_.end(), is_small);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (any_small && !is_small(parameters_[i])) continue;
    parameters_[i].tripwire = parameters_[i].tensor.register_hook([weak = weak_from_this(), i](const at::Tensor&) {
      if (const auto self = weak.lock()) self->on_tripwire(i);
    });
  }
}

void Reducer::on_tripwire(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (parameters_[index].hook->is_current()) return;
  at_begin_();
  follow_parameters();
  // LibTorch 1 looks for hooks behind the accumulation before it calls this hook, so a hook added here is too late for
  // this parameter. Its gradient may also go elsewhere (torch::autograd::grad) and then does not change.
  const GradientState before(parameters_[index].tensor);
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), index, before] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> callback_lock(self->mutex_);
    if (!(GradientState(self->parameters_[index].tensor) == before)) self->take_note_of(index);
  });
}

}  // namespace lockstep
