#include "lockstep/parallel/reducer/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/end_group.h"

namespace lockstep {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& entries) {
  std::vector<at::Tensor> result;
  for (const auto& entry : entries) result.push_back(entry.tensor);
  return result;
}

// Beginning with the dense ones, so that these have their indices.
std::vector<NamedTensor> all_of(const ReducerParameters& parameters) {
  std::vector<NamedTensor> all = parameters.dense;
  all.insert(all.end(), parameters.sparse.begin(), parameters.sparse.end());
  all.insert(all.end(), parameters.frozen.begin(), parameters.frozen.end());
  return all;
}

}  // namespace

Reducer::Reducer(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                 const ReducerOptions& options)
    : communicator_(std::move(communicator)),
      flags_(parameters.dense.size(), communicator_->world_size()),
      buckets_(parameters.dense, communicator_, {options.bucket_caps, flags_.numel()}),
      sparse_(parameters.sparse, communicator_),
      replica_watch_(all_of(parameters)),
      hooks_(tensors_of(parameters.dense)),
      sparse_hooks_(tensors_of(parameters.sparse)),
      graph_(options.static_graph, buckets_.num_parameters()),
      trace_(std::make_shared<BackwardTrace>(buckets_.size())),
      parameters_(buckets_.num_parameters()),
      fired_(buckets_.num_parameters(), false),
      progress_(buckets_.size()) {}

std::shared_ptr<Reducer> Reducer::make(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                                       ReducerOptions options) {
  std::shared_ptr<Reducer> reducer(new Reducer(parameters, std::move(communicator), options));
  reducer->install_hooks();
  return reducer;
}

void Reducer::install_hooks() {
  hooks_.install([weak = weak_from_this()](std::size_t index) {
    if (const auto self = weak.lock()) self->on_gradient(index);
  });
  sparse_hooks_.install([weak = weak_from_this()](std::size_t) {
    if (const auto self = weak.lock()) self->on_sparse_gradient();
  });
}

void Reducer::register_hook(std::unique_ptr<CommunicationHook> hook) {
  if (hook_ || ran_) {
    throw Error(hook_ ? "a communication hook is registered already" : "a backward has already run",
                communicator_->membership().where() + ", DistributedDataParallel",
                "register one hook, right after construction, on every rank");
  }
  hook_ = std::move(hook);
}

void Reducer::hand_over(const std::vector<std::size_t>& buckets, LaterReduction& later) {
  const std::lock_guard<std::mutex> lock(mutex_);
  later_ = &later;
  num_left_ = buckets.size();
  for (const std::size_t index : buckets) {
    progress_[index].is_left = true;
    for (const std::size_t i : buckets_[index].parameters) replica_watch_.set_left_out(i, true);
  }
}

void Reducer::take_back() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (BucketProgress& bucket : progress_) bucket.is_left = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) replica_watch_.set_left_out(i, false);
  num_left_ = 0;
  later_ = nullptr;
  buckets_.use_own_dtype();
}

void Reducer::drop_gradients() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < buckets_.num_parameters(); ++i) buckets_.take_off(i);
  sparse_.drop();
}

void Reducer::prepare(bool synchronise) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (in_backward()) drop_backward();
  synchronise_ = synchronise;
  if (synchronise && std::exchange(backward_, Backward::None) == Backward::Awaited) {
    log_debug("the last synchronised forward had no backward so far: the other ranks wait if theirs had one");
  }
  if (synchronise) statistics_ = StepStatistics();  // no values of an older step, in case no gradient arrives
  follow_parameters();
  trace_->begin_forward();
}

// After an exception in backward: harmless, unless the other ranks wait for the remaining gradients.
void Reducer::drop_backward() {
  if (backward_ == Backward::Sent) {
    end_group(*communicator_, "the previous backward ended early, after some of its gradients had been sent",
              "an exception left backward: look for it in this rank's log, and end or restart the job");
  }
  backward_ = Backward::None;
}

void Reducer::follow_parameters() {
  const std::size_t dense = hooks_.follow();
  const std::size_t sparse = sparse_hooks_.follow();
  if (sparse > 0) sparse_.set_moved();
  if (dense + sparse == 0) return;
  moved_ = true;
  log_debug("{} of {} parameters got other memory (torch::load or set_): their gradients are followed there",
            dense + sparse, hooks_.size() + sparse_hooks_.size());
}

void Reducer::watch_output(const at::Tensor& output) {
  trace_->end_forward(output, synchronise_);
  if (!synchronise_ || !output.defined() || !output.requires_grad()) return;
  if (backward_ == Backward::None) backward_ = Backward::Awaited;
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
    if (self->in_backward() && self->engine_task_.expired()) self->drop_backward();
    if (self->synchronise_ && !self->in_backward()) self->begin_backward();
  });
}

void Reducer::follow_backward(std::function<void()> at_begin, std::function<void()> at_end) {
  const bool has_tripwires = at_begin_ != nullptr;
  at_begin_ = std::move(at_begin);
  at_end_ = std::move(at_end);
  if (has_tripwires) return;
  GradientHooks& hooks = hooks_.size() > 0 ? hooks_ : sparse_hooks_;
  hooks.set_tripwires([weak = weak_from_this(), &hooks](std::size_t index) {
    if (const auto self = weak.lock()) self->on_tripwire(hooks, index);
  });
}

// @param hooks  of the parameter
void Reducer::on_tripwire(const GradientHooks& hooks, std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hooks.is_current(index)) return;
  at_begin_();
  follow_parameters();
  // LibTorch 1 looks for hooks behind the accumulation before it calls this hook, so a hook added here is too late for
  // this parameter. Its gradient may also go elsewhere (torch::autograd::grad) and then does not change.
  hooks.at_end_if_changed(index, [weak = weak_from_this(), is_sparse = &hooks == &sparse_hooks_, index] {
    const auto self = weak.lock();
    if (!self) return;
    if (is_sparse) {
      self->on_sparse_gradient();
    } else {
      self->on_gradient(index);
    }
  });
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  note_gradient(index);
}

void Reducer::on_sparse_gradient() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (synchronise_) reach_parameters();  // the end of the backward combines the gradients
}

void Reducer::reach_parameters() {
  if (in_backward() && engine_task_.expired()) drop_backward();
  if (!in_backward()) begin_backward();
  if (backward_ == Backward::Begun) backward_ = Backward::Reached;
}

void Reducer::begin_backward() {
  if (at_begin_) {
    at_begin_();
    follow_parameters();
  }
  backward_ = Backward::Begun;
  next_launch_ = 0;
  flags_.clear();
  if (moved_) flags_.set_moved();
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
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->finish_backward();
  });
  if (!graph_.is_known()) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // So that it does not delay its bucket.
    if (!graph_.expects(i) && leaves_in_backward(buckets_.bucket_of(i))) mark_ready(i);
  }
}

void Reducer::note_gradient(std::size_t index) {
  const BucketProgress& bucket = progress_[buckets_.bucket_of(index)];
  if (bucket.is_left && !bucket.launched) later_->gradient_arrived(index);
  if (arrived_) arrived_(index);
  if (!synchronise_) return;
  reach_parameters();
  if (!graph_.expects(index)) {
    end_group(
        *communicator_,
        fmt::format("static_graph is set, but parameter \"{}\" got a gradient that it did not get in the first step",
                    buckets_.name(index)),
        "leave static_graph off where the graph changes between steps");
  }
  fired_[index] = true;
  if (!leaves_in_backward(buckets_.bucket_of(index))) return;
  if (bucket.launched) {
    keep_late_gradient(index);
  } else if (parameters_[index].ready) {
    if (buckets_.take(index)) flags_.set_contributed(index);  // a second part: already added, perhaps in other memory
  } else {
    mark_ready(index);
    launch_ready_buckets();
    communicator_->progress();
  }
}

void Reducer::mark_ready(std::size_t index) {
  if (buckets_.take(index)) flags_.set_contributed(index);
  parameters_[index].ready = true;
  const std::size_t bucket = buckets_.bucket_of(index);
  if (--progress_[bucket].pending == 0) trace_->ready(bucket);
}

void Reducer::keep_late_gradient(std::size_t index) {
  // `launch` removed the gradient from the parameter, so this one holds only the late contribution.
  const at::NoGradGuard no_grad;
  const at::Tensor grad = buckets_.take_off(index);
  if (!grad.defined()) return;
  at::Tensor& late = parameters_[index].late;
  late = late.defined() ? late.add(grad) : grad;
}

void Reducer::launch_ready_buckets() {
  // The last bucket carries the flags, which are complete only at the end, when finish_backward launches it.
  for (; next_launch_ + 1 < progress_.size(); ++next_launch_) {
    if (!leaves_in_backward(next_launch_)) continue;
    if (progress_[next_launch_].pending != 0) return;
    launch(next_launch_);
  }
}

void Reducer::launch(std::size_t index) {
  for (const std::size_t i : buckets_[index].parameters) parameters_[i].held = buckets_.take_off(i).defined();
  BucketProgress& bucket = progress_[index];
  trace_->launch(index);
  if (bucket.is_left) {
    bucket.work = later_->start(index);
  } else {
    bucket.work = hook_ ? hook_->start(buckets_.for_hook(index), *communicator_)
                        : communicator_->all_reduce_async(buckets_[index].message, reduce_op());
  }
  bucket.launched = true;
  if (in_backward()) backward_ = Backward::Sent;
}

}  // namespace lockstep
