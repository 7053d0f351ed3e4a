#include "lockstep/train/loop/training_session.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/files/file_system.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/elastic/elastic_ranks.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/callbacks/default_flow.h"
#include "lockstep/train/checks/earlier_results.h"
#include "lockstep/train/checks/flat_loss.h"
#include "lockstep/train/checks/slow_rank.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/startup_advice.h"
#include "lockstep/train/survival/hidden_group.h"

namespace lockstep {

SessionCore::SessionCore(TrainerContext& of_trainer)
    : context(of_trainer),
      choice(choose_engine(context.args(), *context.options.model, context.group.get(), context.is_rank)),
      parts(context, choice.replicas),
      checkpoints(context, parts, choice.replicas),
      update(context, parts, checkpoints),
      state(context, parts, checkpoints, update),
      first(context),
      engine(context, parts, choice) {}

TrainingSession::TrainingSession(TrainerContext& context) : context_(context), args_(context.args()), core_(context) {
  if (context.elastic) ranks_ = std::make_unique<SurvivingRanks>(core_);
  reset_state();
}

TrainingSession::~TrainingSession() { context_.flow = nullptr; }

void TrainingSession::reset_state() {
  context_.state = TrainerState();
  set_planned_numbers(core_.parts.plan, context_.state);
  context_.state.is_world_process_zero = context_.rank() == 0;
  context_.state.is_local_process_zero = context_.is_first_of_host();
  context_.control = TrainerControl();
  context_.other_time_s = 0;
}

TrainOutput TrainingSession::run() {
  const auto start = std::chrono::steady_clock::now();
  // Dropout differs from rank to rank.
  torch::manual_seed(static_cast<std::uint64_t>(args_.seed) + static_cast<std::uint64_t>(context_.rank()));
  const bool is_new = ranks_ && ranks_->is_new();
  if (!is_new) core_.parts.data.require_on_all(context_.group);
  const bool has_place = !is_new && ranks_ && ranks_->memory().finds_place();
  // Whoever looks there later must not find an older training than the one that begins now.
  if (!is_new && !has_place && ranks_) ranks_->rescue().forget_memory();
  std::optional<std::string> fused = has_place ? std::nullopt : share_before_resuming();
  if (!is_new && !has_place) core_.checkpoints.resume();
  if (!core_.checkpoints.taken_up().empty() && context_.state.global_step >= core_.parts.plan.max_steps)
    return end_at_once();
  context_.flow = std::make_shared<DefaultFlowCallback>(core_.parts.plan);
  context_.options.model->set_training(true);
  if (!is_new && !has_place) {
    if (!fused) fused = core_.engine.make(/*are_level=*/false);
    context_.print(startup_text(context_, core_.parts.plan, core_.choice, *fused, core_.checkpoints.changes()));
    core_.state.notes().first_step = context_.state.global_step;
    core_.first.begin();
    context_.starts_over = core_.checkpoints.taken_up().empty();
    const bool keeps_results = std::exchange(context_.keeps_results, false) || !context_.starts_over;
    if (core_.first.has_begun() && !keeps_results) remove_combined_results(args_.output_dir);
    context_.notify_begin();
    if (args_.eval_on_start && context_.options.eval_dataset) evaluate(Evaluate::ToLook);
  }
  try {
    if (has_place) ranks_->memory().continue_training();
    run_stages();
  } catch (...) {
    if (ranks_) ranks_->memory().note_failure(std::current_exception());
    throw;
  }
  return finish(seconds_since(start));
}

// Weights in shards are loaded by each rank's share, so the ranks share them out before. Weights that are whole on each
// rank are loaded first.
std::optional<std::string> TrainingSession::share_before_resuming() {
  if (!may_shard_weights(args_, context_.world_size()) || !TrainingCheckpoints::are_asked_for(args_))
    return std::nullopt;
  std::string fused = core_.engine.make(/*are_level=*/false);
  if (context_.shards) return fused;
  core_.engine.get()->unfuse();
  core_.engine.reset();
  return std::nullopt;
}

// The checkpoint already has as many steps as this run should do, or more. Callbacks are not called, because nothing is
// trained and what they wrote about the finished training must stay.
TrainOutput TrainingSession::end_at_once() {
  const std::int64_t step = context_.state.global_step;
  for (const std::string& change : core_.checkpoints.changes()) context_.print("warning: " + change);
  context_.print(
      fmt::format("Training is already complete: {} is of step {}, and this run ends with step {}. Nothing is "
                  "trained; to continue, ask for more (--max-steps, --num-train-epochs).",
                  core_.checkpoints.taken_up(), step, core_.parts.plan.max_steps));
  const bool has_best = !context_.state.best_model_checkpoint.empty();
  if (args_.load_best_model_at_end && step == core_.parts.plan.max_steps && has_best) core_.parts.best.load();
  core_.engine.keep_shards();
  TrainOutput output;
  output.global_step = step;
  output.already_complete = core_.checkpoints.taken_up();
  return output;
}

void TrainingSession::run_stages() {
  ElasticRanks* const elastic = context_.elastic.get();
  if (ranks_ && !ranks_->is_new()) elastic->announce();
  while (core_.state.stage() != Stage::Done) {
    try {
      if (ranks_) ranks_->settle_if_changed();
      if (core_.state.stage() == Stage::Done) return;
      if (elastic != nullptr) begin_stage();
      run_stage();
      if (ranks_) ranks_->note_end_of_stage();
      core_.state.end_stage();
      if (elastic == nullptr) continue;
      elastic->advance();
      core_.state.note_place();
    } catch (...) {
      if (elastic == nullptr) throw;
      ranks_->recover(std::current_exception());
    }
  }
}

void TrainingSession::begin_stage() {
  core_.first.await_folder(core_.state.use_of_folder());
  core_.state.note_place();
  if (core_.state.stage() != Stage::Update) return;
  core_.state.note_buffers();
  if (std::exchange(core_.state.notes().joiner_waits, false)) ranks_->admit();
  ranks_->memory().keep_place();
}

void TrainingSession::run_stage() {
  TrainerControl& control = context_.control;
  switch (core_.state.stage()) {
    case Stage::Begin:
    case Stage::Finish:
      if (core_.state.stage() == Stage::Finish) core_.checkpoints.wait();
      if (context_.elastic && context_.group) context_.group->barrier();
      if (core_.state.stage() == Stage::Begin) return;
      if (core_.engine.get() != nullptr) core_.engine.get()->finish();
      if (context_.elastic) context_.elastic->close();
      return;
    case Stage::EpochBegin:
      return begin_epoch();
    case Stage::Update:
      return core_.update.run(*core_.engine.get(), [this](const UpdateTotals& totals) {
        if (ranks_) ranks_->memory().keep_update(totals);
      });
    case Stage::EpochEnd:
      context_.notify(&TrainerCallback::on_epoch_end);
      return;
    case Stage::Control:
    case Stage::EpochControl: {
      bool waits = context_.elastic && context_.elastic->someone_waits();
      context_.agree_on_control(&waits);
      core_.state.notes().joiner_waits = core_.state.notes().joiner_waits || waits;
      core_.state.notes().epoch_ended = core_.state.stage() == Stage::EpochControl;
      return;
    }
    case Stage::Log:
      if (std::exchange(control.should_log, false)) log_training_loss();
      return;
    case Stage::Evaluate:
      core_.state.notes().evaluated = std::exchange(control.should_evaluate, false) && context_.options.eval_dataset;
      if (core_.state.notes().evaluated) evaluate(Evaluate::ToCompare);
      return;
    case Stage::EvaluateControl:
      // If only one rank stopped early, the others would wait for it.
      if (core_.state.notes().evaluated) context_.agree_on_control();
      return;
    case Stage::Save:
      if (std::exchange(control.should_save, false)) save();
      return;
    case Stage::EpochNext:
      return end_epoch();
    case Stage::LoadBest:
      return load_best();
    case Stage::Done:
      return;
  }
}

void TrainingSession::begin_epoch() {
  if (context_.options.set_epoch) context_.options.set_epoch(core_.parts.progress.epoch());
  context_.control.should_epoch_stop = false;
  context_.notify(&TrainerCallback::on_epoch_begin);
}

void TrainingSession::end_epoch() {
  core_.state.notes().epoch_ended = false;
  core_.parts.progress.end_epoch();
}

void TrainingSession::log_training_loss() {
  const bool has_nothing = core_.parts.losses.has_unlogged_nothing();
  const std::optional<double> mean = core_.parts.losses.take_unlogged_mean();
  if (!mean && !has_nothing) return;
  // Without a label that counts there is no loss, and the step has its line all the same.
  Logs logs{{"grad_norm", core_.parts.updater.norm()}, {"learning_rate", core_.parts.updater.learning_rate()}};
  if (mean) logs.insert(logs.begin(), {"loss", *mean});
  context_.log(logs);
  core_.first.keep_log(logs);
}

void TrainingSession::load_best() {
  if (!args_.load_best_model_at_end || core_.update.stop_was_asked()) return;
  std::optional<HiddenGroup> alone;
  if (ranks_ && ranks_->others_are_done()) alone.emplace(context_);
  core_.parts.best.load();
}

void TrainingSession::save() {
  TrainingCheckpoints::SaveOptions how;
  how.epoch_ended = core_.state.notes().epoch_ended;
  how.wait = core_.update.stop_was_asked() || args_.survive_lost_ranks;
  core_.checkpoints.save(how);
}

void TrainingSession::evaluate(Evaluate purpose) {
  Logs metrics;
  context_.evaluate(context_.options.eval_dataset, "eval", &TrainerCallback::on_evaluate, metrics);
  if (purpose == Evaluate::ToLook || !core_.parts.best.is_sought()) return;
  const double value = core_.parts.best.value_in(metrics);
  core_.parts.updater.step_plateau(value);
  core_.parts.best.compare(value);
}

TrainOutput TrainingSession::finish(double runtime_s) {
  if (context_.elastic) core_.first.take_folder_at_the_end();
  // If one checkpoint is kept, it is the best one; the last one was kept only for resuming.
  const std::optional<std::int64_t> best = context_.state.best_global_step;
  if (args_.save_total_limit == 1 && best && context_.rank() == 0 && !core_.update.stop_was_asked()) {
    OutputFolder(real_file_system(), args_.output_dir).rotate(1, *best, best);
  }

  TrainOutput output;
  output.global_step = context_.state.global_step;
  output.training_loss = core_.parts.losses.mean();
  output.received_signal = core_.update.stop_signal();
  output.stopped_by_signal =
      output.received_signal == 0 || output.received_signal == SIGINT ? output.received_signal : SIGTERM;
  // Only this session's steps and training time count, without evaluating and saving.
  const double training_s = std::max(runtime_s - context_.other_time_s, 1e-9);
  const auto steps = static_cast<double>(output.global_step - core_.state.notes().first_step);
  output.metrics = {{"train_runtime", rounded(runtime_s, 4)},
                    {"train_samples_per_second", rounded(static_cast<double>(core_.update.samples()) / training_s, 3)},
                    {"train_steps_per_second", rounded(steps / training_s, 3)},
                    {"total_flos", context_.state.total_flos},
                    {"train_loss", output.training_loss}};
  context_.log(output.metrics);
  context_.keep_callback_states(context_.control);
  output.metrics.emplace_back("epoch", context_.state.epoch);
  context_.notify(&TrainerCallback::on_train_end);
  std::string slow;
  const auto compare_waits = [&] {
    slow = context_.world_size() > 1 ? slow_rank_line(*context_.group, core_.update.waited_s(), training_s) : "";
  };
  context_.elastic ? context_.elastic->section(compare_waits, [] {}) : compare_waits();
  if (!slow.empty()) context_.print(slow);
  const std::string flat = core_.state.notes().first_step == 0
                               ? flat_loss_line(context_.state.log_history, context_.args().learning_rate)
                               : "";
  if (!flat.empty()) context_.print(flat);
  core_.engine.keep_shards();
  if (core_.update.stop_was_asked()) core_.update.record_asked_stop();
  return output;
}

}  // namespace lockstep
