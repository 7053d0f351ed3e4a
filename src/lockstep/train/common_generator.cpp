#include "lockstep/train/common_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace lockstep {
namespace {

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// Puts a state back at the end of a scope.
class KeptGeneratorState {
 public:
  KeptGeneratorState() : state_(generator_state()) {}
  KeptGeneratorState(const KeptGeneratorState&) = delete;
  KeptGeneratorState& operator=(const KeptGeneratorState&) = delete;
  ~KeptGeneratorState() { set_generator_state(state_); }

 private:
  at::Tensor state_;
};

}  // namespace

void with_common_generator(Communicator& communicator, const std::function<void()>& body) {
  if (communicator.world_size() == 1) {
    body();
    return;
  }
  at::Tensor state = generator_state();
  communicator.broadcast(state, 0);
  if (communicator.rank() == 0) {
    body();
    return;
  }
  const KeptGeneratorState own;
  set_generator_state(state);
  body();
}

}  // namespace lockstep
