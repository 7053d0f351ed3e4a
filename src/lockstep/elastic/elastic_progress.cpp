#include "lockstep/elastic/elastic_progress.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/elastic/step_end.h"
#include "lockstep/net/worlds/enter_job.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"

namespace lockstep {
namespace {

std::unique_ptr<ElasticGroup> join_job(const ProcessGroupOptions& options) {
  if (is_replacement()) {
    auto group =
        std::make_unique<ElasticGroup>(options.backend, options.timeout.value_or(timeout_of_job(options.backend)));
    group->join();
    return group;
  }
  if (!is_initialized()) {
    init_process_group(options);
  } else if (default_group()->rank() == 0) {
    log_warning(
        "init_process_group was called before the loop that survives lost ranks, which joins the job itself. A process "
        "that takes a lost rank's place cannot call it");
  }
  return std::make_unique<ElasticGroup>(default_group(), options.backend);
}

void refuse_fused_outside(const std::vector<torch::optim::Optimizer*>& optimizers) {
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    const auto* const flat = dynamic_cast<const FlatOptimizer*>(optimizer);
    if (flat == nullptr || !flat->has_step_delegate()) continue;
    throw UsageError(
        "a loop that survives lost ranks cannot use an optimizer that is fused outside of it", "this process",
        "wrap the module, and fuse, in the function that is called for each group, and keep no wrapper elsewhere: "
        "both belong to a group");
  }
}

// The steps of a group that ended may still run on a device, and NCCL's memory of a lost rank is mapped there.
const ElasticState& on_the_cpu(const ElasticState& state) {
  for (const at::Tensor& tensor : state.tensors) {
    if (!tensor.defined() || tensor.device().is_cpu()) continue;
    throw UsageError(
        "a loop that survives lost ranks cannot use a tensor on " + tensor.device().str(), "this process",
        "keep what it trains on the CPU; or, on devices, write checkpoints and let the launcher start the ranks again "
        "(lockstep run --max-restarts)");
  }
  return state;
}

constexpr const char* kLastExchange =
    "do it before the optimizer's step, or at the next one's start: a rank lost in between would leave half of "
    "a step";

// Throws `failure` with more advice if the ranks have made different calls.
void advise_on_different_calls(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const FailureCause* const cause = cause_of(error);
    if (cause == nullptr || cause->kind != FailureCause::Kind::Disagreement) return;
    std::rethrow_exception(with_more_advice(
        error,
        "; at the end of a step the ranks of a loop that survives lost ranks meet in an all_gather of 4 long: a rank "
        "that is there already has left out what the others do in that step. Let it do its part also if it has no "
        "samples"));
  } catch (...) {
  }
}

// Thrown by `finish_step` where a step was made although the group ended in it.
struct GroupHasChanged : std::exception {
  const char* what() const noexcept override {
    return "the ranks have changed, and the loop continues with the new ones";
  }
};

}  // namespace

ElasticProgress::ElasticProgress(const ElasticState& state, const ProcessGroupOptions& options)
    : state_(on_the_cpu(state)), data_(state.data), watch_(std::in_place, state.tensors), backup_(state) {
  refuse_fused_outside(state_.optimizers);
  if (state_.first_step < 0) {
    throw UsageError(fmt::format("ElasticState::first_step is {}", state_.first_step), "this process",
                     "give the number of steps that were made before, such as those of a checkpoint");
  }
  auto group = join_job(options);
  if (state_.most_ranks > 0) group->limit(state_.most_ranks);
  ranks_ = std::make_unique<ElasticRanks>(std::move(group), is_replacement() ? -1 : state_.first_step);
  if (state_.optimizers.size() != 1) return;
  auto* const flat = dynamic_cast<FlatOptimizer*>(state_.optimizers.front());
  if (flat != nullptr) rescue_ = ranks_->make_rescue(*flat, RescueMemory{JobMemoryMap::of_rank(), false});
}

void ElasticProgress::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const GroupHasChanged&) {
  } catch (...) {
    recover(std::current_exception());
  }
}

void ElasticProgress::begin() {
  watch_->start_over();
  refuse_fused_outside(state_.optimizers);
  ranks_->bring_level(*this, rescue_.get());
  lets_in_ = false;
  is_new_ = true;
  steps_of_group_ = 0;
}

void ElasticProgress::check(Communicator& ranks) {
  if (const auto refusal = data_.compare(ranks, step())) {
    is_refused_ = true;
    refuse_data(refusal->what, refusal->where, refusal->fix);
  }
  ranks_->announce();
}

// A rank that ends would wait for the others at the end, and they for it in a memory of the new group, or at its door.
void ElasticProgress::compare_ends(bool ends) {
  if (!std::exchange(is_new_, false) && !lets_in_) return;
  Communicator& ranks = *group();
  if (ranks.world_size() == 1) return;
  const at::Tensor mine = at::tensor({ends ? 1 : 0}, at::TensorOptions().dtype(at::kInt));
  const at::Tensor all = at::empty({ranks.world_size()}, mine.options());
  ranks.all_gather(all, mine);
  const int* const ended = all.data_ptr<int>();
  for (int rank = 0; rank < ranks.world_size(); ++rank) {
    if (ended[rank] == ended[0]) continue;
    const bool is_first = ended[0] != 0;
    throw_caused(Error(fmt::format("rank {} ends its loop after step {}, and rank {} makes another step",
                                   is_first ? 0 : rank, step(), is_first ? rank : 0),
                       ranks.membership().where(),
                       "end all ranks' loops after the same step: a process that takes a lost rank's place knows what "
                       "ElasticState has, so what decides it belongs there"),
                 {FailureCause::Kind::Disagreement, -1});
  }
}

void ElasticProgress::start_step() {
  if (looks_at_state()) watch_->take();
  backup_.take();
}

void ElasticProgress::finish_step() {
  require_step_of_group();
  if (looks_at_state()) require_whole_state();
  ++steps_of_group_;
  ranks_->advance();
  backup_.drop();
  if (ranks_->has_regrouped()) throw GroupHasChanged();
  meet_after_step();
}

// In the first step of a group, the second, the fourth and so on.
bool ElasticProgress::looks_at_state() const {
  const std::int64_t number = steps_of_group_ + 1;
  return (number & (number - 1)) == 0;
}

void ElasticProgress::require_step_of_group() {
  if (ranks_->has_regrouped() ? ranks_->has_finished_update() : !group()->has_thrown()) return;
  refuse(fmt::format("step {} has caught the failure of an exchange: what it has updated is not what all ranks give",
                     step()),
         "let errors of exchanges pass: the loop makes the step again if a rank is lost");
}

void ElasticProgress::require_whole_state() {
  const std::string name = watch_->changed();
  if (name.empty()) return;
  refuse(
      fmt::format("step {} changes {}, which ElasticState::tensors does not have: a process that takes a lost rank's "
                  "place would have another value",
                  step(), name),
      "add it there: all parameters and buffers of the modules that the loop changes");
}

void ElasticProgress::refuse(const std::string& what, const std::string& fix) {
  is_refused_ = true;
  throw UsageError(what, group()->membership().where(), fix);
}

void ElasticProgress::admit() { ranks_->admit(); }

void ElasticProgress::end() {
  refuse_fused_outside(state_.optimizers);
  if (rescue_) rescue_->take_whole();
  group()->barrier();
  is_over_ = true;
}

void ElasticProgress::leave() {
  watch_.reset();
  ranks_->close();
  ranks_->leave();
}

void ElasticProgress::recover(const std::exception_ptr& failure) {
  if (is_refused_) std::rethrow_exception(failure);
  advise_on_different_calls(failure);
  const bool has_regrouped = ranks_->has_regrouped(), is_made = ranks_->has_finished_update();
  if (!has_regrouped && backup_.has_updated()) {
    require_lost_rank(failure);
    refuse(fmt::format("a rank was lost after step {} had updated the weights, and before its end", step()),
           kLastExchange);
  }
  if (!is_made) backup_.restore();
  ranks_->recover(failure);
  if (!is_made) return;
  refuse(
      "ranks communicated between the fused optimizer's step and the step's end, which a loop that survives lost ranks "
      "does not allow",
      kLastExchange);
}

// Whether a process waits, on which the ranks must agree; and that all have made the same step by the same options.
void ElasticProgress::meet_after_step() {
  const StepEnd end = meet_at_end(*group(), step(), ranks_->someone_waits(), state_.optimizers);
  lets_in_ = end.waits;
  if (end.problem) refuse(*end.problem, end.fix);
}

void ElasticProgress::receive(Communicator& ranks, const Standing& standing, const KeptState& /*kept*/) {
  const at::NoGradGuard no_grad;
  const bool is_behind = step() < standing.newest;
  const bool saves = ranks.rank() == standing.source && state_.save;
  const std::string text = broadcast_text(ranks, saves ? state_.save() : "", standing.source);
  if (is_behind) ranks_->set_position(-1);  // half of a state is of no use, if the source is lost now
  broadcast_coalesced(ranks, state_.tensors, standing.source);
  for (torch::optim::Optimizer* optimizer : state_.optimizers) broadcast_optimizer(ranks, *optimizer, standing.source);
  if (!is_behind) return;
  if (state_.load) state_.load(text);
  ranks_->set_position(standing.newest);
}

}  // namespace lockstep
