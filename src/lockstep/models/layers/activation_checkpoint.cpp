#include "lockstep/models/layers/activation_checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/random/random_stream.h"
#include "lockstep/detail/tensor/autocast.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layer = std::function<at::Tensor(const at::Tensor&)>;

at::Generator generator_of(const at::Tensor& x) { return at::globalContext().defaultGenerator(x.device()); }

at::Tensor generator_state(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The source of the calling thread's random numbers before a layer ran: LibTorch's generator, or a replica's stream.
struct RandomState : torch::CustomClassHolder {
  explicit RandomState(const at::Tensor& x) {
    if (const RandomStream* current = current_random_stream()) {
      stream = *current;
    } else {
      generator = generator_state(generator_of(x));
    }
  }
  at::Tensor generator;
  std::optional<RandomStream> stream;
};

// While it lives, the thread draws the same numbers again.
class ReplayedRandom {
 public:
  ReplayedRandom(at::Generator generator, const RandomState& state) : generator_(std::move(generator)) {
    if (state.stream) {
      stream_ = *state.stream;
      guard_.emplace(&stream_);
    } else {
      saved_ = generator_state(generator_);
      set_generator_state(generator_, state.generator);
    }
  }
  ~ReplayedRandom() {
    if (saved_.defined()) set_generator_state(generator_, saved_);
  }
  ReplayedRandom(const ReplayedRandom&) = delete;
  ReplayedRandom& operator=(const ReplayedRandom&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
  RandomStream stream_;
  std::optional<RandomStreamGuard> guard_;
};

// A layer and the precision in which it computed.
struct SavedLayer : torch::CustomClassHolder {
  SavedLayer(Layer saved, c10::DeviceType device)
      : layer(std::move(saved)), autocast(is_autocast_on(device)), dtype(autocast_type(device)) {}
  Layer layer;
  bool autocast;
  at::ScalarType dtype;
};

class CheckpointedLayer : public torch::autograd::Function<CheckpointedLayer> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Layer& layer) {
    context->saved_data["layer"] = at::IValue::make_capsule(c10::make_intrusive<SavedLayer>(layer, x.device().type()));
    context->saved_data["random"] = at::IValue::make_capsule(c10::make_intrusive<RandomState>(x));
    context->save_for_backward({x});
    return layer(x);  // gradients are off in here
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const auto saved = c10::static_intrusive_pointer_cast<SavedLayer>(context->saved_data["layer"].toCapsule());
    at::Tensor y;
    {
      const auto random = c10::static_intrusive_pointer_cast<RandomState>(context->saved_data["random"].toCapsule());
      const ReplayedRandom replay(generator_of(x), *random);
      const Autocast autocast(x.device().type(), saved->dtype, saved->autocast);
      const at::AutoGradMode with_gradients(true);
      // A view instead of the leaf itself: autocast would keep the leaf's cast for every use of it, and sums of
      // gradients would be cut in another place than without recomputing.
      y = saved->layer(x.view(x.sizes()));
    }
    torch::autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor checkpoint_activations(const Layer& layer, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return layer(x);
  return CheckpointedLayer::apply(x, layer);
}

}  // namespace lockstep
