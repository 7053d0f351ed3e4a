#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace lockstep {

/// Gives LibTorch's CPU generator back at its end as it was, for work that draws numbers which nobody asked for.
class KeptGenerator {
 public:
  KeptGenerator() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~KeptGenerator() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace lockstep
