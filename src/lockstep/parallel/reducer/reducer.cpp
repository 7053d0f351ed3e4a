#include "lockstep/parallel/reducer/reducer.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {
namespace {

// Beginning with the dense ones, so that these have their indices.
std::vector<NamedTensor> all_of(const ReducerParameters& parameters) {
  std::vector<NamedTensor> all = trained_of(parameters);
  all.insert(all.end(), parameters.frozen.begin(), parameters.frozen.end());
  return all;
}

}  // namespace

Reducer::Reducer(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                 const ReducerOptions& options)
    : context_(std::move(communicator), parameters.dense.size(), options.counts_updates),
      buckets_(parameters.dense, context_.communicator,
               {options.bucket_caps, context_.flags.numel(), options.gets_memory_later}),
      replica_watch_(all_of(parameters)),
      hooks_(tensors_of(parameters.dense)),
      sparse_hooks_(tensors_of(parameters.sparse)),
      shared_(context_.communicator.get(), tensors_of(parameters.dense)),
      graph_(options.static_graph, buckets_.num_parameters()),
      parts_(make_backward_parts({context_, buckets_, replica_watch_, [this](std::size_t i) { return is_left(i); }},
                                 parameters, options.module, options.counts_updates)),
      trace_(std::make_shared<BackwardTrace>(buckets_.size())),
      parameters_(buckets_.num_parameters()),
      fired_(buckets_.num_parameters(), false),
      progress_(buckets_.size()),
      module_(options.module) {
  if (context_.communicator->world_size() == 1 || options.counts_updates) return;
  captured_.emplace(trained_of(parameters));
}

Reducer::~Reducer() {
  if (!captured_ || context_.communicator->rank() != 0) return;
  const auto is_elsewhere = [&](std::size_t i) { return i < parameters_.size() && shared_.was_elsewhere(i); };
  if (const auto text = captured_->report_of_end(ran_, is_elsewhere)) log_warning("DistributedDataParallel: {}", *text);
}

std::shared_ptr<Reducer> Reducer::make(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                                       ReducerOptions options) {
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

void Reducer::register_hook(std::unique_ptr<CommunicationHook> hook) {
  const bool has_hook = !context_.reduction->carries_flags();
  if (has_hook || ran_) {
    throw Error(has_hook ? "a communication hook is registered already" : "a backward has already run",
                context_.communicator->membership().where() + ", DistributedDataParallel",
                "register one hook, right after construction, on every rank");
  }
  context_.reduction = average_by_hook(std::move(hook), context_.communicator);
}

void Reducer::hand_over(const std::vector<std::size_t>& buckets, LaterReduction& later) {
  const std::lock_guard<std::mutex> lock(mutex_);
  later_ = &later;
  num_left_ = buckets.size();
  for (const std::size_t index : buckets) {
    progress_[index].is_left = true;
    for (const std::size_t i : buckets_[index].parameters) {
      replica_watch_.set_left_out(i, true);
      shared_.keep(i, true);
    }
  }
  watch_accumulations();
  if (follows_) set_tripwires();
}

void Reducer::take_back(bool moves) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (BucketProgress& bucket : progress_) bucket.is_left = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    replica_watch_.set_left_out(i, false);
    shared_.keep(i, false);
  }
  num_left_ = 0;
  later_ = nullptr;
  hooks_.call_before(nullptr);
  if (moves) buckets_.use_own_dtype();
}

void Reducer::use_group_memory() {
  const std::lock_guard<std::mutex> lock(mutex_);
  buckets_.use_group_memory();
}

void Reducer::drop_gradients() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::size_t i = 0; i < buckets_.num_parameters(); ++i) buckets_.take_off(i);
  for (const auto& part : parts_) part->drops();
}

void Reducer::prepare(bool synchronise, bool trains) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (in_backward()) drop_backward();
  synchronise_ = synchronise;
  trains_ = trains;
  forward_.reset();
  if (synchronise && std::exchange(backward_, Backward::None) == Backward::Awaited) {
    log_debug("the last synchronised forward had no backward so far: the other ranks wait if theirs had one");
  }
  if (synchronise) {
    context_.statistics = StepStatistics();  // no values of an older step, in case no gradient arrives
    was_announced_ = true;
  }
  report_captured_gradients();
  follow_parameters();
  trace_->begin_forward();
}

void Reducer::note_access() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (in_backward() && !engine_task_.expired()) return;
  report_captured_gradients();
  follow_parameters();
}

void Reducer::report_captured_gradients() {
  if (!captured_) return;
  const auto text = captured_->take_report();
  if (text && context_.communicator->rank() == 0) log_warning("DistributedDataParallel: {}", *text);
}

// After an exception in backward: harmless, unless the other ranks wait for the remaining gradients.
void Reducer::drop_backward() {
  if (backward_ == Backward::Sent) {
    end_group(*context_.communicator, "the previous backward ended early, after some of its gradients had been sent",
              "an exception left backward: look for it in this rank's log, and end or restart the job");
  }
  backward_ = Backward::None;
}

void Reducer::follow_parameters() {
  const std::size_t dense = hooks_.follow();
  const std::size_t sparse = sparse_hooks_.follow();
  if (dense + sparse == 0) return;
  for (const auto& part : parts_) part->moved(dense, sparse);
  log_debug("{} of {} parameters got other memory (torch::load or set_): their gradients are followed there",
            dense + sparse, hooks_.size() + sparse_hooks_.size());
}

void Reducer::note_gradient(std::size_t index) {
  begin_for_later();
  if (captured_) captured_->gradient_arrived();
  const BucketProgress& bucket = progress_[buckets_.bucket_of(index)];
  if (is_elsewhere(index)) return pass_by(index);
  notice_plain_call();
  if (synchronise_) reach_parameters();
  if (bucket.is_left && !bucket.launched) later_->gradient_arrived(index);
  if (arrived_) arrived_(index);
  if (!synchronise_) return note_alone(index, bucket.is_left);
  if (!graph_.expects(index)) {
    end_group(
        *context_.communicator,
        fmt::format("static_graph is set, but parameter \"{}\" got a gradient that it did not get in the first step",
                    buckets_.name(index)),
        "leave static_graph off where the graph changes between steps");
  }
  fired_[index] = true;
  if (!leaves_in_backward(buckets_.bucket_of(index))) return;
  if (bucket.launched) {
    keep_late_gradient(index);
  } else if (parameters_[index].ready) {
    // A second part: already added, perhaps in other memory.
    if (!bucket.is_left && buckets_.take(index)) context_.flags.set_contributed(index);
  } else {
    send_ready(index);
    context_.communicator->progress();
  }
}

// In no_sync. @param index  also of a sparse one, behind the others
void Reducer::note_alone(std::size_t index, bool is_left) {
  if (captured_ && !is_left) captured_->arrived_alone(index);
}

// Another wrapper averages the gradient. Here the others of its bucket do not wait for it.
void Reducer::pass_by(std::size_t index) {
  if (!in_backward() || engine_task_.expired() || !leaves_in_backward(buckets_.bucket_of(index))) return;
  fired_[index] = true;
  if (parameters_[index].ready) return;
  send_ready(index);
}

// The engine may have found already that another rank makes other calls.
void Reducer::send_ready(std::size_t index) {
  mark_ready(index);
  meet("a backward", [this] { launch_ready_buckets(false); });
}

void Reducer::mark_ready(std::size_t index) {
  if (is_elsewhere(index)) {
    buckets_.clear(index);
  } else if (!is_left(index) && buckets_.take(index)) {
    context_.flags.set_contributed(index);
  }
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

// @param at_end  of backward
void Reducer::launch_ready_buckets(bool at_end) {
  // The last bucket carries the flags, which are complete only at the end, when finish_backward launches it.
  for (; next_launch_ + 1 < progress_.size(); ++next_launch_) {
    if (!leaves_in_backward(next_launch_)) continue;
    if (progress_[next_launch_].pending != 0) return;
    if (!at_end && progress_[next_launch_].is_left && !later_->can_start(next_launch_)) return;
    launch(next_launch_);
  }
}

void Reducer::launch(std::size_t index) {
  BucketProgress& bucket = progress_[index];
  if (bucket.is_left) {
    bucket.work = later_->start(index);
    trace_->launch(index);
  } else {
    for (const std::size_t i : buckets_[index].parameters) {
      if (!is_elsewhere(i)) buckets_.take_off(i);
    }
    trace_->launch(index);
    bucket.work = context_.reduction->start(buckets_, index, reduce_op());
  }
  bucket.launched = true;
  if (in_backward()) backward_ = Backward::Sent;
}

}  // namespace lockstep
