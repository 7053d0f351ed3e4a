#include "lockstep/parallel/elastic_loop.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/comm/elastic/elastic_group.h"
#include "lockstep/net/worlds/enter_job.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/agreement/module_sync.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/elastic/standing.h"
#include "lockstep/parallel/elastic/step_backup.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"

namespace lockstep {
namespace {

std::unique_ptr<ElasticGroup> join_job(const ProcessGroupOptions& options) {
  if (is_replacement()) {
    auto group =
        std::make_unique<ElasticGroup>(options.backend, options.timeout.value_or(timeout_of_job(options.backend)));
    group->join();
    return group;
  }
  if (!is_initialized()) init_process_group(options);
  return std::make_unique<ElasticGroup>(default_group(), options.backend);
}

void refuse_fused(const std::vector<torch::optim::Optimizer*>& optimizers, const char* what, const char* fix) {
  for (const torch::optim::Optimizer* optimizer : optimizers) {
    const auto* const flat = dynamic_cast<const FlatOptimizer*>(optimizer);
    if (flat != nullptr && flat->has_step_delegate()) throw UsageError(what, "this process", fix);
  }
}

void refuse_fused_before(const std::vector<torch::optim::Optimizer*>& optimizers) {
  refuse_fused(optimizers, "elastic_loop with an optimizer that is fused outside of its body",
               "wrap the module, and fuse, in the body: both belong to a group");
}

// Thrown by `next` where the body has made a step although the group ended in it.
struct GroupHasChanged : std::exception {
  const char* what() const noexcept override { return "the ranks have changed; elastic_loop calls its body again"; }
};

}  // namespace

class ElasticSteps::Progress {
 public:
  Progress(std::int64_t steps, const ElasticState& state, std::unique_ptr<ElasticGroup> group)
      : steps_(steps), state_(state), group_(std::move(group)), backup_(state.tensors) {
    if (is_replacement()) position_ = -1;
    if (state_.optimizers.size() != 1) return;
    if (auto* const flat = dynamic_cast<FlatOptimizer*>(state_.optimizers.front())) make_rescue(*flat);
  }

  ElasticGroup& group() { return *group_; }
  std::int64_t step() const { return position_; }
  bool is_done() const { return position_ >= steps_; }

  // Before the body is called.
  void begin() {
    has_regrouped_ = is_made_ = false;
    meet();
    take_whole();
    const Standing standing = compare_positions(*group_->group(), position_, false);
    if (!standing.all_equal) take_over(standing);
    has_begun_ = false;
    lets_in_ = false;
  }

  bool next() {
    if (!rescue_) {
      refuse_fused(state_.optimizers, "elastic_loop with several optimizers, one of which is fused",
                   "leave fuse out: when a rank is lost, half of a step could be made");
    }
    if (std::exchange(has_begun_, true)) {
      ++position_;
      group_->has_advanced();
      backup_.drop();
      if (has_regrouped_) throw GroupHasChanged();
      lets_in_ = someone_waits();
    }
    const bool goes_on = !lets_in_ && !is_done();
    if (goes_on) backup_.take();
    return goes_on;
  }
  bool lets_in() const { return lets_in_ && !is_done(); }

  // After the body has returned.
  void take_whole() {
    refuse_fused_before(state_.optimizers);
    if (rescue_) rescue_->take_whole();
  }

  void recover(const std::exception_ptr& failure) {
    if (!is_made_) backup_.restore();
    if (!has_regrouped_) return group_->recover(failure);
    require_lost_rank(failure);
    if (!is_made_) return;
    throw UsageError(
        "the body of elastic_loop exchanges something between the fused optimizer's step and next()",
        group_->group()->membership().where(),
        "do it before the step, or after next(): a rank that is lost in between would leave half of a step");
  }

 private:
  void make_rescue(FlatOptimizer& optimizer) {
    UpdateRescue::Ranks ranks;
    ranks.regroup = [this](const std::exception_ptr& failure) {
      group_->recover(failure);
      has_regrouped_ = true;
      return group_->group();
    };
    ranks.meet = [this](InterruptedUpdate* update) { return is_made_ = meet(update); };
    rescue_.emplace(optimizer, std::move(ranks), RescueMemory{JobMemoryMap::of_rank(), false});
  }

  bool meet(InterruptedUpdate* update = nullptr) {
    if (met_in_ == group_->number()) return false;
    const bool is_finished = meet_after_loss(*group_->group(), update);
    met_in_ = group_->number();
    return is_finished;
  }

  // The ranks must agree on it.
  bool someone_waits() {
    Communicator& ranks = *group_->group();
    const bool waits = group_->someone_waits();
    if (ranks.world_size() == 1) return waits;
    const at::Tensor flag = at::tensor({waits ? 1 : 0}, at::TensorOptions().dtype(at::kInt));
    ranks.all_reduce(flag, ReduceOp::Max);
    return flag.data_ptr<int>()[0] != 0;
  }

  void take_over(const Standing& standing) {
    const at::NoGradGuard no_grad;
    Communicator& ranks = *group_->group();
    const bool is_behind = position_ < standing.newest;
    const bool saves = ranks.rank() == standing.source && state_.save;
    const std::string text = broadcast_text(ranks, saves ? state_.save() : "", standing.source);
    if (is_behind) position_ = -1;  // half of a state is of no use, if the source is lost now
    broadcast_coalesced(ranks, state_.tensors, standing.source);
    for (torch::optim::Optimizer* optimizer : state_.optimizers)
      broadcast_optimizer(ranks, *optimizer, standing.source);
    if (!is_behind) return;
    if (state_.load) state_.load(text);
    position_ = standing.newest;
  }

  const std::int64_t steps_;
  const ElasticState& state_;
  std::unique_ptr<ElasticGroup> group_;
  std::int64_t position_ = 0;
  StepBackup backup_;
  bool has_begun_ = false;  // the body has made its first call of next
  bool lets_in_ = false;
  std::optional<UpdateRescue> rescue_;
  std::int64_t met_in_ = -1;    // number of the group
  bool has_regrouped_ = false;  // in an optimizer's step
  bool is_made_ = false;        // that step
};

const std::shared_ptr<Communicator>& ElasticSteps::group() const { return progress_.group().group(); }
std::int64_t ElasticSteps::step() const { return progress_.step(); }
bool ElasticSteps::next() { return progress_.next(); }

void elastic_loop(std::int64_t steps, const ElasticState& state, const std::function<void(ElasticSteps&)>& body,
                  const ProcessGroupOptions& options) {
  refuse_fused_before(state.optimizers);
  ElasticSteps::Progress progress(steps, state, join_job(options));
  progress.group().announce();
  for (;;) {
    try {
      progress.begin();
      ElasticSteps now(progress);
      body(now);
      if (progress.lets_in()) {
        progress.group().admit();
        continue;
      }
      if (!progress.is_done()) {
        throw UsageError(fmt::format("the body of elastic_loop returned in step {} of {}", progress.step(), steps),
                         progress.group().group()->membership().where(),
                         "return when ElasticSteps::next returns false");
      }
      progress.take_whole();
      progress.group().group()->barrier();
      break;
    } catch (const GroupHasChanged&) {
    } catch (...) {
      progress.recover(std::current_exception());
    }
  }
  progress.group().close();
  progress.group().leave();
}

}  // namespace lockstep
