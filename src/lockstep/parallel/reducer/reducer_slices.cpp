// Reducer: what slices need of it. Their backwards only accumulate, and Slices adds the gradients up.
#include <ATen/core/grad_mode.h>

#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/update_difference.h"

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
  statistics_ = StepStatistics();
  flags_.clear();
  if (moved_) flags_.set_moved();
}

void Reducer::end_slice_sums(std::uint64_t update, const std::vector<std::uint8_t>& contributed, double waited_s) {
  const at::NoGradGuard no_grad;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (contributed[i] != 0) flags_.set_contributed(i);
  }
  if (!all_left()) {
    flags_.set_bits(replica_watch_.look());
    flags_.set_update(update);
    flags_.set_module(module_);
    flags_.set_frozen(frozen_.number());
    send_flags();
    check_same_module();
    if (flags_.frozen_differs()) frozen_.throw_difference(*communicator_, active_ranks());
    if (flags_.updates_differ()) throw_different_updates(*communicator_, update);
    check_moved_parameters();
    replica_watch_.compare(*communicator_, flags_.differing_bits());
    statistics_.waited_s = waited_s;
    for (std::size_t i = 0; i < progress_.size(); ++i) {
      statistics_.bytes += static_cast<std::int64_t>(buckets_[i].memory.nbytes());
      ++statistics_.buckets;
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!flags_.contributed(i)) {
      buckets_.take_off(i);
      if (!all_left()) ++statistics_.unused_parameters;
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
