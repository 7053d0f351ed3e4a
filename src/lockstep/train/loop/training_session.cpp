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
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/callbacks/default_flow.h"
#include "lockstep/train/checks/earlier_results.h"
#include "lockstep/train/checks/flat_loss.h"
#include "lockstep/train/checks/slow_rank.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/startup_advice.h"
#include "lockstep/train/survival/survival.h"

namespace lockstep {

TrainingSession::TrainingSession(TrainerContext& context)
    : context_(context),
      args_(context.args()),
      model_(context.options.model),
      choice_(choose_engine(args_, *model_, context.group.get(), context.is_rank)),
      parts_(context, choice_.replicas),
      checkpoints_(context, parts_, choice_.replicas),
      job_memory_(context.survival ? JobMemoryMap::of_rank() : nullptr),
      rescue_(context.survival ? make_rescue() : nullptr),
      update_(context, parts_, checkpoints_),
      state_(context, parts_, checkpoints_, update_),
      first_(context) {
  if (rescue_) memory_ = std::make_unique<SessionMemory>(context_, parts_, update_, state_, *rescue_, job_memory_);
  reset_state();
}

TrainingSession::~TrainingSession() {
  context_.flow = nullptr;
  if (!keeps_shards_) context_.shards.reset();
}

void TrainingSession::reset_state() {
  context_.state = TrainerState();
  set_planned_numbers(parts_.plan, context_.state);
  context_.state.is_world_process_zero = context_.rank() == 0;
  context_.state.is_local_process_zero = context_.is_first_of_host();
  context_.control = TrainerControl();
  context_.other_time_s = 0;
}

TrainOutput TrainingSession::run() {
  const auto start = std::chrono::steady_clock::now();
  // Dropout differs from rank to rank.
  torch::manual_seed(static_cast<std::uint64_t>(args_.seed) + static_cast<std::uint64_t>(context_.rank()));
  is_new_ = must_settle_ = context_.survival && context_.survival->position() < 0;
  if (!is_new_) parts_.data.require_on_all(context_.group);
  const bool has_place = !is_new_ && memory_ && memory_->finds_place();
  // Whoever looks there later must not find an older training than the one that begins now.
  if (!is_new_ && !has_place && rescue_) rescue_->forget_memory();
  std::optional<std::string> fused = has_place ? std::nullopt : share_before_resuming();
  if (!is_new_ && !has_place) checkpoints_.resume();
  if (!checkpoints_.taken_up().empty() && context_.state.global_step >= parts_.plan.max_steps) return end_at_once();
  context_.flow = std::make_shared<DefaultFlowCallback>(parts_.plan);
  model_->set_training(true);
  if (!is_new_ && !has_place) {
    print_advice(fused ? *fused : make_engine(false));
    state_.notes().first_step = context_.state.global_step;
    first_.begin();
    context_.starts_over = checkpoints_.taken_up().empty();
    const bool keeps_results = std::exchange(context_.keeps_results, false) || !context_.starts_over;
    if (first_.has_begun() && !keeps_results) remove_combined_results(args_.output_dir);
    context_.notify_begin();
    if (args_.eval_on_start && context_.options.eval_dataset) evaluate(Evaluate::ToLook);
  }
  try {
    if (has_place) memory_->continue_training(first_, [this] { print_advice(make_engine(/*are_level=*/true)); });
    run_stages();
  } catch (...) {
    if (memory_) memory_->note_failure(std::current_exception());
    throw;
  }
  return finish(seconds_since(start));
}

// Weights in shards are loaded by each rank's share, so the ranks share them out before. Weights that are whole on each
// rank are loaded first.
std::optional<std::string> TrainingSession::share_before_resuming() {
  if (!may_shard_weights(args_, context_.world_size()) || !TrainingCheckpoints::are_asked_for(args_))
    return std::nullopt;
  std::string fused = make_engine(false);
  if (context_.shards) return fused;
  engine_->unfuse();
  engine_.reset();
  return std::nullopt;
}

// After the training each rank still has its share of the weights alone, for evaluations and saving.
void TrainingSession::keep_shards() {
  if (!context_.shards) return;
  struct Kept {
    std::unique_ptr<FlatOptimizer> optimizer;  // which the engine uses
    std::shared_ptr<GradientEngine> engine;
  };
  auto kept = std::make_shared<Kept>(Kept{parts_.updater.release_optimizer(), engine_});
  context_.shards = std::shared_ptr<WeightShards>(kept, context_.shards.get());
  keeps_shards_ = true;
}

// The checkpoint already has as many steps as this run should do, or more. Callbacks are not called, because nothing is
// trained and what they wrote about the finished training must stay.
TrainOutput TrainingSession::end_at_once() {
  const std::int64_t step = context_.state.global_step;
  for (const std::string& change : checkpoints_.changes()) context_.print("warning: " + change);
  context_.print(
      fmt::format("Training is already complete: {} is of step {}, and this run ends with step {}. Nothing is "
                  "trained; to continue, ask for more (--max-steps, --num-train-epochs).",
                  checkpoints_.taken_up(), step, parts_.plan.max_steps));
  const bool has_best = !context_.state.best_model_checkpoint.empty();
  if (args_.load_best_model_at_end && step == parts_.plan.max_steps && has_best) parts_.best.load();
  keep_shards();
  TrainOutput output;
  output.global_step = step;
  output.already_complete = checkpoints_.taken_up();
  return output;
}

void TrainingSession::save() {
  TrainingCheckpoints::SaveOptions how;
  how.epoch_ended = state_.notes().epoch_ended;
  how.wait = update_.stop_was_asked() || args_.survive_lost_ranks;
  checkpoints_.save(how);
}

void TrainingSession::evaluate(Evaluate purpose) {
  Logs metrics;
  context_.evaluate(context_.options.eval_dataset, "eval", &TrainerCallback::on_evaluate, metrics);
  if (purpose == Evaluate::ToLook || !parts_.best.is_sought()) return;
  const double value = parts_.best.value_in(metrics);
  parts_.updater.step_plateau(value);
  parts_.best.compare(value);
}

TrainOutput TrainingSession::finish(double runtime_s) {
  if (context_.survival) first_.take_folder_at_the_end();
  // If one checkpoint is kept, it is the best one; the last one was kept only for resuming.
  const std::optional<std::int64_t> best = context_.state.best_global_step;
  if (args_.save_total_limit == 1 && best && context_.rank() == 0 && !update_.stop_was_asked()) {
    OutputFolder(real_file_system(), args_.output_dir).rotate(1, *best, best);
  }

  TrainOutput output;
  output.global_step = context_.state.global_step;
  output.training_loss = parts_.losses.mean();
  output.received_signal = update_.stop_signal();
  output.stopped_by_signal =
      output.received_signal == 0 || output.received_signal == SIGINT ? output.received_signal : SIGTERM;
  // Only this session's steps and training time count, without evaluating and saving.
  const double training_s = std::max(runtime_s - context_.other_time_s, 1e-9);
  const auto steps = static_cast<double>(output.global_step - state_.notes().first_step);
  output.metrics = {{"train_runtime", rounded(runtime_s, 4)},
                    {"train_samples_per_second", rounded(static_cast<double>(update_.samples()) / training_s, 3)},
                    {"train_steps_per_second", rounded(steps / training_s, 3)},
                    {"total_flos", context_.state.total_flos},
                    {"train_loss", output.training_loss}};
  context_.log(output.metrics);
  context_.keep_callback_states(context_.control);
  output.metrics.emplace_back("epoch", context_.state.epoch);
  context_.notify(&TrainerCallback::on_train_end);
  std::string slow;
  const auto compare_waits = [&] {
    slow = context_.world_size() > 1 ? slow_rank_line(*context_.group, update_.waited_s(), training_s) : "";
  };
  context_.survival ? context_.survival->section(context_, compare_waits, [] {}) : compare_waits();
  if (!slow.empty()) context_.print(slow);
  const std::string flat =
      state_.notes().first_step == 0 ? flat_loss_line(context_.state.log_history, context_.args().learning_rate) : "";
  if (!flat.empty()) context_.print(flat);
  keep_shards();
  if (update_.stop_was_asked()) update_.record_asked_stop();
  return output;
}

}  // namespace lockstep
