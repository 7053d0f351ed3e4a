#include "lockstep/parallel/backward/backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/parallel/end_group.h"

namespace lockstep {

Backward::Backward(const ReducerParameters& parameters, std::shared_ptr<Communicator> communicator,
                   const ReducerOptions& options)
    : context_(std::move(communicator), parameters, options.counts_updates),
      queue_(parameters.dense, context_, {options.bucket_caps, context_.flags.numel(), options.gets_memory_later}),
      graph_(options.static_graph, queue_.buckets(), context_.communicator) {
  context_.module = options.module;
  context_.trace = std::make_shared<BackwardTrace>(queue_.buckets().size());
  parts_ = make_backward_parts(context_, queue_, parameters, options.counts_updates);
}

void Backward::begin(const std::shared_ptr<void>& task) {
  state_ = State::Begun;
  context_.flags.clear();
  for (const auto& part : parts_) part->begins(context_.flags);
  graph_.begin();
  queue_.begin(task);
  if (!graph_.is_known()) return;
  for (std::size_t i = 0; i < buckets().num_parameters(); ++i) {
    // So that it does not delay its bucket.
    if (!graph_.expects(i) && queue_.leaves(i)) queue_.mark_ready(i);
  }
}

void Backward::reach() {
  if (is_reached()) return;
  state_ = State::Reached;
  context_.place.note_backward();
}

void Backward::gradient_arrived(std::size_t parameter) {
  graph_.gradient_arrived(parameter);
  if (!queue_.take(parameter)) return;
  meet("a backward", [this] { queue_.launch_ready(false); });
  context_.communicator->progress();
}

void Backward::gradient_passed(std::size_t parameter) {
  if (!queue_.leaves(parameter)) return;
  graph_.gradient_passed(parameter);
  if (queue_.pass_by(parameter)) meet("a backward", [this] { queue_.launch_ready(false); });
}

// Harmless, unless the other ranks wait for the remaining gradients.
void Backward::drop() {
  if (queue_.has_sent()) {
    end_group(*context_.communicator, "the previous backward ended early, after some of its gradients had been sent",
              "an exception left backward: look for it in this rank's log, and end or restart the job");
  }
  state_ = State::None;
}

bool Backward::finish() {
  if (!is_reached()) {  // torch::autograd::grad of the inputs, perhaps
    state_ = State::None;
    return false;
  }
  const at::NoGradGuard no_grad;
  graph_.end();
  queue_.complete();
  meet("a backward", [this] {
    reduce();
    const bool is_any_missing = queue_.restore();
    for (const auto& part : parts_) part->restored();
    queue_.end(is_any_missing);
    meet_parts(true);
  });
  state_ = State::None;
  has_run_ = true;
  return true;
}

// From the buckets that still wait for others to the averages of all.
void Backward::reduce() {
  BackwardFlags& flags = context_.flags;
  queue_.launch_ready(true);
  context_.statistics = StepStatistics();
  if (!context_.all_kept) {
    for (const auto& part : parts_) part->ends(flags);
  }
  if (const at::Tensor place = queue_.place_of_flags(); place.defined()) flags.write(place);
  queue_.launch_last();
  queue_.wait();
  if (context_.all_kept) return;
  exchange_flags();
  for (const auto& part : parts_) part->check(flags);
  if (flags.any_late()) queue_.reduce_late();
  if (!context_.join.divides_by_active_ranks()) return;
  const std::vector<bool> active = flags.active_ranks();
  const auto number = static_cast<int>(std::count(active.begin(), active.end(), true));
  if (number != 0) queue_.divide(number);
}

void Backward::exchange_flags() {
  BackwardFlags& flags = context_.flags;
  if (const at::Tensor place = queue_.place_of_flags(); place.defined()) {
    flags.read(place);
  } else if (context_.reduction->synchronizes()) {
    send_flags();  // a hook may round or drop its data, so the flags are sent separately
  }
  int lowest = 0;
  while (lowest + 1 < context_.communicator->world_size() && flags.joined(lowest)) ++lowest;
  context_.join.set_lowest_active_rank(lowest);
}

void Backward::send_flags() {
  at::Tensor flags = at::empty({context_.flags.numel()}, at::TensorOptions().dtype(at::kFloat));
  context_.flags.write(flags);
  context_.communicator->all_reduce(flags);
  context_.flags.read(flags);
}

void Backward::meet_parts(bool has_inputs) {
  if (!context_.reduction->synchronizes()) return;
  for (const auto& part : parts_) part->meets(has_inputs);
}

bool Backward::join() {
  const at::NoGradGuard no_grad;
  const Communicator& group = *context_.communicator;
  for (const auto& part : parts_) part->joins();
  if (context_.all_kept) {
    meet_parts(false);
    return false;
  }
  context_.flags.clear();
  context_.flags.set_joined(group.rank());
  queue_.begin_without_inputs();
  reduce();
  meet_parts(false);
  const int last = group.world_size() - 1;
  return context_.flags.joined(last) && context_.join.lowest_active_rank() == last;
}

void Backward::begin_sums() {
  const auto guard = lock();
  context_.statistics = StepStatistics();
  context_.flags.clear();
  for (const auto& part : parts_) part->begins(context_.flags);
}

void Backward::end_sums(const std::vector<std::uint8_t>& contributed, double waited_s) {
  const at::NoGradGuard no_grad;
  const auto guard = lock();
  BackwardFlags& flags = context_.flags;
  StepStatistics& statistics = context_.statistics;
  for (std::size_t i = 0; i < contributed.size(); ++i) {
    if (contributed[i] != 0) flags.set_contributed(i);
  }
  if (!context_.all_kept) {
    for (const auto& part : parts_) part->ends(flags);
    send_flags();
    for (const auto& part : parts_) part->check(flags);
    statistics.waited_s = waited_s;
    for (std::size_t i = 0; i < buckets().size(); ++i) {
      statistics.bytes += static_cast<std::int64_t>(buckets()[i].memory.nbytes());
      ++statistics.buckets;
    }
  }
  for (std::size_t i = 0; i < contributed.size(); ++i) {
    if (!flags.contributed(i)) {
      buckets().take_off(i);
      if (!context_.all_kept) ++statistics.unused_parameters;
      continue;
    }
    buckets().show(i);
    if (context_.all_kept) queue_.keeper().arrived(i);
  }
  queue_.keeper().backward_ended(false);
  has_run_ = true;
  context_.place.note_backward();
  if (trace_recorder::is_on()) trace_recorder::end_step();
}

void Backward::register_hook(std::unique_ptr<CommunicationHook> hook) {
  const bool has_hook = !context_.reduction->carries_flags();
  if (has_hook || has_run_) {
    throw Error(has_hook ? "a communication hook is registered already" : "a backward has already run",
                context_.communicator->membership().where() + ", DistributedDataParallel",
                "register one hook, right after construction, on every rank");
  }
  context_.reduction = average_by_hook(std::move(hook), context_.communicator);
}

void Backward::hand_over(const std::vector<std::size_t>& kept, GradientKeeper& keeper) {
  queue_.hand_over(kept, keeper);
  for (const std::size_t index : kept) {
    for (const std::size_t i : buckets()[index].parameters) context_.replicas.set_left_out(i, true);
  }
}

void Backward::take_back() {
  queue_.take_back();
  for (std::size_t i = 0; i < buckets().num_parameters(); ++i) context_.replicas.set_left_out(i, false);
}

void Backward::drop_gradients() {
  for (std::size_t i = 0; i < buckets().num_parameters(); ++i) buckets().take_off(i);
  for (const auto& part : parts_) part->drops();
}

void Backward::note_moved(std::size_t dense, std::size_t sparse) {
  for (const auto& part : parts_) part->moved(dense, sparse);
}

}  // namespace lockstep
