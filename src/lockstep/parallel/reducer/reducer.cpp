#include "lockstep/parallel/reducer/reducer.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

Reducer::Reducer(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                 const ReducerOptions& options)
    : backward_(parameters, std::move(communicator), options),
      hooks_(tensors_of(parameters.dense)),
      sparse_hooks_(tensors_of(parameters.sparse)) {
  if (backward_.context().communicator->world_size() == 1 || options.counts_updates) return;
  captured_.emplace(trained_of(parameters));
}

Reducer::~Reducer() {
  if (!captured_ || backward_.context().communicator->rank() != 0) return;
  const BucketQueue& queue = backward_.queue();
  const auto is_elsewhere = [&](std::size_t i) {
    return i < queue.buckets().num_parameters() && queue.was_elsewhere(i);
  };
  const auto text = captured_->report_of_end(backward_.has_run(), is_elsewhere);
  if (text) log_warning("DistributedDataParallel: {}", *text);
}

std::shared_ptr<Reducer> Reducer::make(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                                       const ReducerOptions& options) {
  std::shared_ptr<Reducer> reducer(new Reducer(parameters, std::move(communicator), options));
  reducer->install_hooks();
  if (!options.counts_updates) reducer->set_tripwires();
  return reducer;
}

void Reducer::install_hooks() {
  hooks_.install([weak = weak_from_this()](std::size_t index) {
    if (const auto self = weak.lock()) self->on_gradient(index);
  });
  sparse_hooks_.install([weak = weak_from_this()](std::size_t index) {
    if (const auto self = weak.lock()) self->on_sparse_gradient(index);
  });
}

void Reducer::hand_over(const std::vector<std::size_t>& buckets, GradientKeeper& keeper, BackwardWatcher* watcher) {
  const auto lock = backward_.lock();
  backward_.hand_over(buckets, keeper);
  watcher_ = watcher;
  watch_accumulations();
  if (plain_calls_.are_rule()) set_tripwires();
}

void Reducer::take_back(bool moves) {
  const auto lock = backward_.lock();
  backward_.take_back();
  watcher_ = nullptr;
  hooks_.call_before(nullptr);
  if (moves) backward_.buckets().use_own_dtype();
}

void Reducer::use_group_memory() {
  const auto lock = backward_.lock();
  backward_.buckets().use_group_memory();
}

void Reducer::drop_gradients() {
  const auto lock = backward_.lock();
  backward_.drop_gradients();
}

bool Reducer::shadow_backward() {
  const auto lock = backward_.lock();
  return backward_.join();
}

void Reducer::prepare(bool synchronise, bool trains) {
  const auto lock = backward_.lock();
  if (backward_.is_running()) backward_.drop();
  synchronise_ = synchronise;
  trains_ = trains;
  forward_.reset();
  if (synchronise) {
    if (std::exchange(is_awaited_, false)) {
      log_debug("the last synchronised forward has had no backward so far: the other ranks wait if theirs had one");
    }
    backward_.context().statistics = StepStatistics();  // no values of an older step, in case no gradient arrives
    plain_calls_.announce();
  }
  report_captured_gradients();
  follow_parameters();
  backward_.context().trace->begin_forward();
}

void Reducer::note_access() {
  const auto lock = backward_.lock();
  if (backward_.is_running() && !engine_task_.expired()) return;
  report_captured_gradients();
  follow_parameters();
}

void Reducer::report_captured_gradients() {
  if (!captured_) return;
  const auto text = captured_->take_report();
  if (text && backward_.context().communicator->rank() == 0) log_warning("DistributedDataParallel: {}", *text);
}

void Reducer::follow_parameters() {
  const std::size_t dense = hooks_.follow();
  const std::size_t sparse = sparse_hooks_.follow();
  if (dense + sparse == 0) return;
  backward_.note_moved(dense, sparse);
  log_debug("{} of {} parameters got other memory (torch::load or set_): their gradients are followed there",
            dense + sparse, hooks_.size() + sparse_hooks_.size());
}

void Reducer::watch_output(const at::Tensor& output) {
  backward_.context().trace->end_forward(output, synchronise_);
  if (!output.defined() || !output.requires_grad()) return;
  if (!synchronise_) return watch_local(output);
  if (!backward_.is_running()) is_awaited_ = true;
  // The backward that starts at the output is the outermost one. Hooks of parameters inside a re-entrant backward
  // (activation checkpointing) see only the inner one, whose end is not the end of the step.
  std::shared_ptr<OutputUse> use = forward_.lock();
  if (!use && trains_) use = std::make_shared<OutputUse>(backward_.context().unused_forwards);
  forward_ = use;
  output.register_hook([weak = weak_from_this(), use](const at::Tensor&) {
    if (use) use->note();
    const auto self = weak.lock();
    if (!self) {
      throw Error(
          "backward goes through an output of a destroyed DistributedDataParallel, so its gradients would not be "
          "averaged",
          "DistributedDataParallel", "keep the wrapper until backward has returned");
    }
    const auto lock = self->backward_.lock();
    self->tell_watcher();
    self->drop_if_cut_off();
    if (!self->synchronise_) return;
    self->plain_calls_.announce();
    if (self->captured_) self->captured_->look_at_backward();
    if (!self->backward_.is_running()) self->begin_backward();
  });
}

// No rank waits for a backward that is not synchronised, so it may outlive the reducer.
void Reducer::watch_local(const at::Tensor& output) {
  output.register_hook([weak = weak_from_this()](const at::Tensor&) {
    const auto self = weak.lock();
    if (!self) return;
    const auto lock = self->backward_.lock();
    self->tell_watcher();
    if (!self->local_task_.expired()) return;
    const auto task = std::make_shared<char>();
    self->local_task_ = task;
    torch::autograd::Engine::get_default_engine().queue_callback([task] {});
  });
}

// Before a gradient arrives. The last forward of the wrapper was in no_sync, and this backward is of another one, past
// the wrapper, which is synchronised like any other.
void Reducer::notice_plain_call() {
  if (synchronise_ || !local_task_.expired() || !plain_calls_.is_wanted()) return;
  synchronise_ = true;
  plain_calls_.announce(false);
}

void Reducer::tell_watcher() {
  if (watcher_ == nullptr || !watched_task_.expired()) return;
  watcher_->backward_begins();
  // The engine destroys the callback and its captures with the backward: at its end or at an exception.
  const std::shared_ptr<void> task(nullptr, [weak = weak_from_this()](void*) {
    const auto self = weak.lock();
    if (!self) return;
    const auto lock = self->backward_.lock();
    if (self->watcher_ != nullptr) self->watcher_->backward_left();
  });
  watched_task_ = task;
  torch::autograd::Engine::get_default_engine().queue_callback([task] {});
}

void Reducer::watch_plain_calls(std::function<void()> at_begin, std::function<void()> at_end,
                                std::function<bool()> is_wanted) {
  plain_calls_.watch(std::move(at_begin), std::move(at_end), std::move(is_wanted));
}

void Reducer::follow_backward() {
  plain_calls_.follow();
  set_tripwires();
}

void Reducer::set_tripwires() {
  GradientHooks& hooks = hooks_.size() > 0 ? hooks_ : sparse_hooks_;
  const auto call = [weak = weak_from_this(), &hooks](std::size_t index) {
    if (const auto self = weak.lock()) self->on_tripwire(hooks, index);
  };
  hooks.set_tripwires(call, plain_calls_.are_rule() && watcher_ != nullptr);
}

// A backward may reach parameters without an output of the wrapper: that of a gradient penalty, whose outputs are
// gradients.
void Reducer::watch_accumulations() {
  if (watcher_ == nullptr) return;
  hooks_.call_before([weak = weak_from_this()](std::size_t) {
    const auto self = weak.lock();
    if (!self) return;
    const auto lock = self->backward_.lock();
    self->tell_watcher();
  });
}

// @param hooks  of the parameter
void Reducer::on_tripwire(const GradientHooks& hooks, std::size_t index) {
  const auto lock = backward_.lock();
  tell_watcher();
  if (hooks.is_current(index)) return;
  if (!plain_calls_.are_rule() && !hooks.is_bare(index)) return;  // another wrapper of the module has had the forward
  plain_calls_.begin();
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
  const auto lock = backward_.lock();
  tell_watcher();
  if (captured_) captured_->gradient_arrived();
  BucketQueue& queue = backward_.queue();
  if (queue.is_elsewhere(index)) {
    if (backward_.is_running() && !engine_task_.expired()) backward_.gradient_passed(index);
    return;
  }
  notice_plain_call();
  if (synchronise_) reach_parameters();
  queue.tell_keeper(index);
  if (arrived_) arrived_(index);
  if (synchronise_) return backward_.gradient_arrived(index);
  if (captured_ && !queue.is_kept(index)) captured_->arrived_alone(index, !backward_.has_run());
}

void Reducer::on_sparse_gradient(std::size_t index) {
  const auto lock = backward_.lock();
  if (captured_) captured_->gradient_arrived();
  notice_plain_call();
  if (synchronise_) return reach_parameters();  // the end of the backward combines the gradients
  if (captured_) captured_->arrived_alone(backward_.buckets().num_parameters() + index, !backward_.has_run());
}

// After an exception in backward.
void Reducer::drop_if_cut_off() {
  if (backward_.is_running() && engine_task_.expired()) backward_.drop();
}

void Reducer::reach_parameters() {
  drop_if_cut_off();
  if (!backward_.is_running()) begin_backward();
  backward_.reach();
}

void Reducer::begin_backward() {
  if (plain_calls_.is_one()) {
    report_captured_gradients();
    plain_calls_.begin();
    follow_parameters();
  }
  is_awaited_ = false;
  // The engine destroys the callback and its captures with the backward: at its end or at an exception.
  const auto task = std::make_shared<char>();
  engine_task_ = task;
  backward_.begin(task);
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->finish_backward();
  });
}

void Reducer::finish_backward() {
  const auto lock = backward_.lock();
  if (!backward_.is_running() || !backward_.finish()) return;
  const at::NoGradGuard no_grad;
  if (plain_calls_.is_one() && !(backward_.context().join.is_on() && !follows_backward())) plain_calls_.end();
  plain_calls_.announce(false);
  backward_.context().trace->end_backward();
}

}  // namespace lockstep
