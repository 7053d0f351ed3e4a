#include "lockstep/parallel/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
Reducer::Reducer(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator,
                 ReducerOptions options)
    : communicator_(std::move(communicator)),
      flags_(parameters.size(), communicator_->world_size()),
      static_graph_(options.static_graph) {
  for (auto& entry : parameters) {
    Parameter parameter;
    parameter.name = std::move(entry.name);
    parameter.tensor = std::move(entry.tensor);
    parameters_.push_back(std::move(parameter));
  }
  allocate_buckets(options);
  install_hooks();
}

Reducer::~Reducer() {
  for (auto& parameter : parameters_) {
    if (parameter.accumulator) parameter.accumulator->del_post_hook(parameter.hook_key);
  }
}

void Reducer::install_hooks() {
  using torch::autograd::variable_list;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    parameter.accumulator = torch::autograd::impl::grad_accumulator(parameter.tensor);
    parameter.hook_key = parameter.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const variable_list& outputs, const variable_list&) {
          on_gradient(i);
          return outputs;
        }));
  }
}

void Reducer::fail(const std::string& what, const std::string& fix) {
  // The others wait for gradients that will not come: tell them now rather than at their deadline.
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
  if (in_backward_) {
    if (sent_) {
      fail("the previous backward ended early, after some of its gradients had been sent",
           "an exception left backward: look for it in this rank's log, and end or restart the job");
    }
    in_backward_ = false;
  }
  synchronise_ = synchronise;
}

void Reducer::watch_output(const at::Tensor& output) {
  if (!synchronise_ || !output.defined() || !output.requires_grad()) return;
  // The backward that starts at the output is the outermost one. Hooks of parameters inside a re-entrant backward
  // (activation checkpointing) see only the inner one, whose end is not the end of the step.
  output.register_hook([this](const at::Tensor&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (synchronise_ && !in_backward_) begin_backward();
  });
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Parameter& parameter = parameters_[index];
  BucketState& bucket = buckets_[parameter.bucket];
  if (bucket.left_to_step) {
    ++arrivals_;
    // Now, while the cache has it.
    if (!bucket.launched && take_gradient(parameter) && watch_for_step_) watch_for_step_(index);
  }
  if (!synchronise_) return;
  if (!in_backward_) begin_backward();
  any_fired_ = true;
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
    adopt_gradient(index);  // a second contribution: already added up, perhaps in memory of its own
  } else {
    mark_ready(index);
    launch_ready_buckets();
    communicator_->progress();
  }
}

void Reducer::begin_backward() {
  in_backward_ = true;
  any_fired_ = false;
  sent_ = false;
  next_launch_ = 0;
  flags_.clear();
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
  torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
  if (!graph_learned_) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // So that it does not hold its bucket back.
    if (!parameters_[i].expected && leaves_in_backward(buckets_[parameters_[i].bucket])) mark_ready(i);
  }
}

void Reducer::mark_ready(std::size_t index) {
  adopt_gradient(index);
  parameters_[index].ready = true;
  --buckets_[parameters_[index].bucket].pending;
}

void Reducer::keep_late_gradient(Parameter& parameter) {
  // `launch` took the gradient off the parameter, so this one holds the late contribution alone.
  const at::NoGradGuard no_grad;
  const at::Tensor grad = std::exchange(parameter.tensor.mutable_grad(), at::Tensor());
  if (!grad.defined()) return;
  parameter.late = parameter.late.defined() ? parameter.late.add(grad) : grad;
}

void Reducer::launch_ready_buckets() {
  // The last bucket carries the flags, which are complete only at the end: finish_backward launches it.
  for (; next_launch_ + 1 < buckets_.size(); ++next_launch_) {
    BucketState& bucket = buckets_[next_launch_];
    if (!leaves_in_backward(bucket)) continue;
    if (bucket.pending != 0) return;
    launch(bucket);
  }
}

void Reducer::launch(BucketState& bucket) {
  // What autograd adds from now on comes to memory of its own.
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
