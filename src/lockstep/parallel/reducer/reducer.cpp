#include "lockstep/parallel/reducer/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
Reducer::Reducer(std::vector<NamedTensor> parameters, std::vector<NamedTensor> sparse,
                 std::shared_ptr<Communicator> communicator, ReducerOptions options)
    : communicator_(std::move(communicator)),
      sparse_(std::move(sparse), communicator_),
      flags_(parameters.size(), communicator_->world_size()),
      static_graph_(options.static_graph) {
  for (auto& entry : parameters) {
    Parameter parameter;
    parameter.name = std::move(entry.name);
    parameter.tensor = std::move(entry.tensor);
    parameters_.push_back(std::move(parameter));
  }
  allocate_buckets(options);
}

void Reducer::fail(const std::string& what, const std::string& fix) {
  // The other ranks wait for gradients that will not be sent: end their wait now rather than at the deadline.
  communicator_->abort(what);
  throw Error(what, communicator_->membership().where() + ", DistributedDataParallel", fix);
}

void Reducer::register_hook(std::unique_ptr<CommunicationHook> hook) {
  if (hook_ || ran_) {
    throw Error(hook_ ? "a communication hook is registered already" : "a backward has already run",
                communicator_->membership().where() + ", DistributedDataParallel",
                "register one hook, right after construction, on every rank");
  }
  hook_ = std::move(hook);
}

void Reducer::prepare(bool synchronise) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (in_backward_) drop_backward();
  synchronise_ = synchronise;
  if (synchronise && std::exchange(awaits_backward_, false)) {
    log_debug("the last synchronised forward had no backward so far: the other ranks wait if theirs had one");
  }
  if (synchronise) statistics_ = StepStatistics();  // no values of an older step, in case no gradient arrives
  follow_parameters();
}

// After an exception in backward: harmless, unless the other ranks wait for the remaining gradients.
void Reducer::drop_backward() {
  if (sent_) {
    fail("the previous backward ended early, after some of its gradients had been sent",
         "an exception left backward: look for it in this rank's log, and end or restart the job");
  }
  in_backward_ = false;
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  take_note_of(index);
}

void Reducer::on_sparse_gradient() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (synchronise_) take_note_of_backward();  // the end of the backward combines the gradients
}

void Reducer::take_note_of_backward() {
  if (in_backward_ && engine_task_.expired()) drop_backward();
  if (!in_backward_) begin_backward();
  any_fired_ = true;
}

void Reducer::take_note_of(std::size_t index) {
  Parameter& parameter = parameters_[index];
  BucketState& bucket = buckets_[parameter.bucket];
  if (bucket.left_to_step) {
    ++arrivals_;
    // Copied now, while it is in the cache.
    if (!bucket.launched && take_gradient(parameter) && watch_for_step_) watch_for_step_(index);
  }
  if (!synchronise_) return;
  take_note_of_backward();
  if (graph_learned_ && !parameter.expected) {
    fail(fmt::format("static_graph is set, but parameter \"{}\" got a gradient that it did not get in the first step",
                     parameter.name),
         "leave static_graph off where the graph changes between steps");
  }
  parameter.fired = true;
  if (!leaves_in_backward(bucket)) return;
  if (bucket.launched) {
    keep_late_gradient(parameter);
  } else if (parameter.ready) {
    adopt_gradient(index);  // a second contribution: already added, perhaps in other memory
  } else {
    mark_ready(index);
    launch_ready_buckets();
    communicator_->progress();
  }
}

void Reducer::begin_backward() {
  if (follows_backward_) {
    at_begin_();
    follow_parameters();
  }
  in_backward_ = true;
  awaits_backward_ = false;
  any_fired_ = false;
  sent_ = false;
  next_launch_ = 0;
  flags_.clear();
  if (moved_) flags_.set_moved();
  for (auto& parameter : parameters_) {
    parameter.ready = false;
    parameter.fired = false;
    parameter.late.reset();
  }
  for (auto& bucket : buckets_) {
    bucket.pending = bucket.params.size();
    bucket.launched = false;
    bucket.work.reset();
  }
  // The engine destroys the callback and its captures with the backward: at its end or at an exception.
  const auto task = std::make_shared<char>();
  engine_task_ = task;
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->finish_backward();
  });
  if (!graph_learned_) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // So that it does not delay its bucket.
    if (!parameters_[i].expected && leaves_in_backward(buckets_[parameters_[i].bucket])) mark_ready(i);
  }
}

void Reducer::mark_ready(std::size_t index) {
  adopt_gradient(index);
  parameters_[index].ready = true;
  --buckets_[parameters_[index].bucket].pending;
}

void Reducer::keep_late_gradient(Parameter& parameter) {
  // `launch` removed the gradient from the parameter, so this one holds only the late contribution.
  const at::NoGradGuard no_grad;
  const at::Tensor grad = std::exchange(parameter.tensor.mutable_grad(), at::Tensor());
  if (!grad.defined()) return;
  parameter.late = parameter.late.defined() ? parameter.late.add(grad) : grad;
}

void Reducer::launch_ready_buckets() {
  // The last bucket carries the flags, which are complete only at the end, when finish_backward launches it.
  for (; next_launch_ + 1 < buckets_.size(); ++next_launch_) {
    BucketState& bucket = buckets_[next_launch_];
    if (!leaves_in_backward(bucket)) continue;
    if (bucket.pending != 0) return;
    launch(bucket);
  }
}

void Reducer::launch(BucketState& bucket) {
  // Autograd writes later contributions to other memory.
  for (const std::size_t i : bucket.params) {
    parameters_[i].held = parameters_[i].tensor.grad().defined();
    parameters_[i].tensor.mutable_grad().reset();
  }
  if (bucket.left_to_step) {
    bucket.work = start_for_step_(bucket.gradients.index);
  } else {
    bucket.work = hook_ ? hook_->start(bucket.gradients, *communicator_)
                        : communicator_->all_reduce_async(bucket.memory, reduce_op());
  }
  bucket.launched = true;
  sent_ = true;
}

}  // namespace lockstep
