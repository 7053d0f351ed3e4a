// Reducer: from forward to the first gradient of a backward.
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

void Reducer::watch_output(const at::Tensor& output) {
  trace_->end_forward(output, synchronise_);
  if (!output.defined() || !output.requires_grad()) return;
  if (!synchronise_) return watch_local(output);
  if (backward_ == Backward::None) backward_ = Backward::Awaited;
  // The backward that starts at the output is the outermost one. Hooks of parameters inside a re-entrant backward
  // (activation checkpointing) see only the inner one, whose end is not the end of the step.
  std::shared_ptr<OutputUse> use = forward_.lock();
  if (!use && trains_) use = std::make_shared<OutputUse>(context_.unused_forwards);
  forward_ = use;
  output.register_hook([weak = weak_from_this(), use](const at::Tensor&) {
    if (use) use->note();
    const auto self = weak.lock();
    if (!self) {
      throw Error(
          "backward goes through an output of a DistributedDataParallel that is destroyed, so that nobody would "
          "average its gradients",
          "DistributedDataParallel", "keep the wrapper until backward has returned");
    }
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->begin_for_later();
    if (self->in_backward() && self->engine_task_.expired()) self->drop_backward();
    if (!self->synchronise_) return;
    self->was_announced_ = true;
    if (self->captured_) self->captured_->look_at_backward();
    if (!self->in_backward()) self->begin_backward();
  });
}

// No rank waits for a backward that is not synchronised, so it may outlive the reducer.
void Reducer::watch_local(const at::Tensor& output) {
  output.register_hook([weak = weak_from_this()](const at::Tensor&) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->begin_for_later();
    if (!self->local_task_.expired()) return;
    const auto task = std::make_shared<char>();
    self->local_task_ = task;
    torch::autograd::Engine::get_default_engine().queue_callback([task] {});
  });
}

// Before a gradient arrives. The last forward of the wrapper was in no_sync, and this backward is of another one, past
// the wrapper, which is synchronised like any other.
void Reducer::notice_plain_call() {
  if (synchronise_ || !at_begin_ || !local_task_.expired() || !is_wanted_()) return;
  synchronise_ = true;
  was_announced_ = false;
}

void Reducer::begin_for_later() {
  if (later_ == nullptr || !later_->wants_every_backward() || !later_task_.expired()) return;
  later_->backward_begins();
  // The engine destroys the callback and its captures with the backward: at its end or at an exception.
  const std::shared_ptr<void> task(nullptr, [weak = weak_from_this()](void*) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    if (self->later_ != nullptr) self->later_->backward_left();
  });
  later_task_ = task;
  torch::autograd::Engine::get_default_engine().queue_callback([task] {});
}

void Reducer::watch_plain_calls(std::function<void()> at_begin, std::function<void()> at_end,
                                std::function<bool()> is_wanted) {
  at_begin_ = std::move(at_begin);
  at_end_ = std::move(at_end);
  is_wanted_ = std::move(is_wanted);
}

void Reducer::follow_backward() {
  follows_ = true;
  set_tripwires();
}

void Reducer::set_tripwires() {
  GradientHooks& hooks = hooks_.size() > 0 ? hooks_ : sparse_hooks_;
  const auto call = [weak = weak_from_this(), &hooks](std::size_t index) {
    if (const auto self = weak.lock()) self->on_tripwire(hooks, index);
  };
  hooks.set_tripwires(call, follows_ && later_ != nullptr && later_->wants_every_backward());
}

// A backward may reach parameters without an output of the wrapper: that of a gradient penalty, whose outputs are
// gradients.
void Reducer::watch_accumulations() {
  if (!later_->wants_every_backward()) return;
  hooks_.call_before([weak = weak_from_this()](std::size_t) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->begin_for_later();
  });
}

// @param hooks  of the parameter
void Reducer::on_tripwire(const GradientHooks& hooks, std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  begin_for_later();
  if (hooks.is_current(index)) return;
  if (!follows_ && !hooks.is_bare(index)) return;  // another wrapper of the module has had the forward
  if (at_begin_) at_begin_();
  follow_parameters();
  // LibTorch 1 looks for hooks behind the accumulation before it calls this hook, so a hook added here is too late for
  // this parameter. Its gradient may also go elsewhere (torch::autograd::grad) and then does not change.
  hooks.at_end_if_changed(index, [weak = weak_from_this(), is_sparse = &hooks == &sparse_hooks_, index] {
    const auto self = weak.lock();
    if (!self) return;
    if (is_sparse) {
      self->on_sparse_gradient(index);
    } else {
      self->on_gradient(index);
    }
  });
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  note_gradient(index);
}

void Reducer::on_sparse_gradient(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (captured_) captured_->gradient_arrived();
  notice_plain_call();
  if (!synchronise_) return note_alone(parameters_.size() + index, false);
  reach_parameters();  // the end of the backward combines the gradients
}

void Reducer::reach_parameters() {
  if (in_backward() && engine_task_.expired()) drop_backward();
  if (!in_backward()) begin_backward();
  if (backward_ != Backward::Begun) return;
  backward_ = Backward::Reached;
  ++backwards_;
}

void Reducer::begin_backward() {
  if (is_plain_call()) {
    report_captured_gradients();
    at_begin_();
    follow_parameters();
  }
  backward_ = Backward::Begun;
  next_launch_ = 0;
  context_.flags.clear();
  for (const auto& part : parts_) part->begins(context_.flags);
  std::fill(parameters_.begin(), parameters_.end(), ParameterState());
  std::fill(fired_.begin(), fired_.end(), false);
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    progress_[i].pending = buckets_[i].parameters.size();
    progress_[i].launched = false;
    progress_[i].work.reset();
  }
  // The engine destroys the callback and its captures with the backward: at its end or at an exception.
  const auto task = std::make_shared<char>();
  engine_task_ = task;
  shared_.take_all(task);
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->finish_backward();
  });
  if (!graph_.is_known()) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // So that it does not delay its bucket.
    if (!graph_.expects(i) && leaves_in_backward(buckets_.bucket_of(i))) mark_ready(i);
  }
}

}  // namespace lockstep
