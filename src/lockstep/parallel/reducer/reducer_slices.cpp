// Reducer: what slices need of it. Their backwards only accumulate, and Slices adds the gradients up.
#include <ATen/core/grad_mode.h>

#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

void Reducer::show_gradients() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) buckets_.show(i);
}

void Reducer::take_gradients() {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) buckets_.take(i);
}

void Reducer::begin_slice_sums() {
  const std::lock_guard<std::mutex> lock(mutex_);
  context_.statistics = StepStatistics();
  context_.flags.clear();
  for (const auto& part : parts_) part->begins(context_.flags);
}

void Reducer::end_slice_sums(std::uint64_t update, const std::vector<std::uint8_t>& contributed, double waited_s) {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (contributed[i] != 0) context_.flags.set_contributed(i);
  }
  if (!all_left()) {
    context_.update = update;
    for (const auto& part : parts_) part->ends(context_.flags);
    send_flags();
    for (const auto& part : parts_) part->check(context_.flags);
    context_.statistics.waited_s = waited_s;
    for (std::size_t i = 0; i < progress_.size(); ++i) {
      context_.statistics.bytes += static_cast<std::int64_t>(buckets_[i].memory.nbytes());
      ++context_.statistics.buckets;
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!context_.flags.contributed(i)) {
      buckets_.take_off(i);
      if (!all_left()) ++context_.statistics.unused_parameters;
      continue;
    }
    buckets_.show(i);
    if (all_left()) later_->gradient_arrived(i);
  }
  if (later_ != nullptr) later_->backward_ended(false);
  ran_ = true;
  ++backwards_;
  if (trace_recorder::is_on()) trace_recorder::end_step();
}

}  // namespace lockstep
