#include "lockstep/detail/train/common_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

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

// Restores a state at the end of a scope.
class KeptGeneratorState {
 public:
  explicit KeptGeneratorState(at::Tensor state) : state_(std::move(state)) {}
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
  const at::Tensor own = generator_state();
  at::Tensor common = own.clone();
  communicator.broadcast(common, 0);
  if (own.equal(common)) {
    body();
    return;
  }
  const KeptGeneratorState kept(own);
  set_generator_state(common);
  body();
}

}  // namespace lockstep
