#include "lockstep/parallel/reducer/gradient_hooks.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <exception>

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

GradientHooks::~GradientHooks() {
  for (std::size_t i = 0; i < tripwires_.size(); ++i) {
    if (!tripwires_[i]) continue;
    try {
      parameters_[i].remove_hook(*tripwires_[i]);
    } catch (const std::exception&) {
      // An in-place operation has already removed it.
    }
  }
}

void GradientHooks::install(const Call& arrived) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(std::make_unique<AccumulatorHook>(parameters_[i], [arrived, i] { arrived(i); }));
  }
}

std::size_t GradientHooks::follow() {
  std::size_t moved = 0;
  for (const auto& hook : hooks_) {
    if (hook->is_current()) continue;
    hook->follow();
    ++moved;
  }
  return moved;
}

// A hook on the tensor itself stays when the tensor gets other memory, and sees the gradient before it is accumulated.
// But it prevents functions from adding to large gradients in place (gradient_in_place.h), so matrices get no such hook
// unless there are no other parameters: one hook that is called is enough for all.
void GradientHooks::set_tripwires(const Call& reached, bool everywhere) {
  const auto is_small = [](const at::Tensor& parameter) { return parameter.dim() <= 1; };
  const bool any_small = std::any_of(parameters_.begin(), parameters_.end(), is_small);
  tripwires_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (tripwires_[i] || (!everywhere && any_small && !is_small(parameters_[i]))) continue;
    tripwires_[i] = parameters_[i].register_hook([reached, i](const at::Tensor&) { reached(i); });
  }
}

void GradientHooks::call_before(const Call& reached) {
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    hooks_[i]->call_before(reached ? std::function<void()>([reached, i] { reached(i); }) : nullptr);
  }
}

void GradientHooks::at_end_if_changed(std::size_t index, const std::function<void()>& call) const {
  const at::Tensor& parameter = parameters_[index];
  torch::autograd::Engine::get_default_engine().queue_callback([parameter, before = GradientState(parameter), call] {
    if (!(GradientState(parameter) == before)) call();
  });
}

}  // namespace lockstep
