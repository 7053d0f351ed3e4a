#include "lockstep/train/loop/training_session.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/base/mix_bits.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/checks/disk_room.h"
#include "lockstep/train/checks/flat_loss.h"
#include "lockstep/train/checks/slow_rank.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/default_flow.h"
#include "lockstep/train/loop/startup_advice.h"
#include "lockstep/train/survival/survival.h"
#include "lockstep/train/weights/model_weights.h"

namespace lockstep {
namespace {

Batch batch_of_first_sample(const Dataset& dataset, const Collate& collate) {
  if (!collate) return dataset.get_batch({0});
  return collate({dataset.get(0)});
}

}  // namespace

TrainingSession::TrainingSession(TrainerContext& context)
    : context_(context),
      args_(context.args()),
      model_(context.options.model),
      device_(device_of(*model_)),
      choice_(choose_engine(args_, *model_, context.group.get())),
      parts_(context, choice_.replicas),
      checkpoints_(context, parts_),
      numbers_(context),
      job_memory_(context.survival ? JobMemoryMap::of_rank() : nullptr),
      memory_(context.survival ? std::make_unique<TrainingMemory>(job_memory_) : nullptr),
      rescue_(context.survival ? make_rescue() : nullptr) {
  if (args_.enable_jit_checkpoint) signal_ = std::make_unique<StopSignal>();
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
  const bool has_place = !is_new_ && memory_ && finds_place();
  // Whoever looks there later must not find an older training than the one that begins now.
  if (!is_new_ && !has_place && rescue_) rescue_->forget_memory();
  std::optional<std::string> fused = has_place ? std::nullopt : share_before_resuming();
  if (!is_new_ && !has_place) checkpoints_.resume();
  if (!checkpoints_.taken_up().empty() && context_.state.global_step >= parts_.plan.max_steps) return end_at_once();
  context_.flow = std::make_shared<DefaultFlowCallback>(parts_.plan);
  model_->set_training(true);
  if (!is_new_ && !has_place) {
    print_advice(fused ? *fused : make_engine(false));
    first_step_ = context_.state.global_step;
    begun_as_first_ = context_.rank() == 0;
    context_.notify(&TrainerCallback::on_train_begin);
    if (args_.eval_on_start && context_.options.eval_dataset) evaluate(Evaluate::ToLook);
  }
  try {
    if (has_place) continue_from_memory();
    run_stages();
  } catch (...) {
    note_failure(std::current_exception());
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

void TrainingSession::print_advice(const std::string& fused_update) {
  if (!fused_update.empty()) choice_.text += ", fused update with " + fused_update;
  if (args_.survive_lost_ranks) choice_.text += ", survives lost ranks";
  if (args_.survive_lost_ranks && args_.fuse && fused_update.empty()) {
    choice_.text += " (the update is not fused)";
  }
  const bool has_eval = context_.options.eval_dataset != nullptr;
  StartupAdvice advice = startup_advice(args_, parts_.plan, choice_, trainable_numbers(*model_), has_eval);
  if (context_.precision.autocast) advice.facts.push_back("Mixed precision = " + context_.precision.name());
  const auto warn = [&](const std::vector<std::string>& lines) {
    advice.warnings.insert(advice.warnings.end(), lines.begin(), lines.end());
  };
  warn(context_.options.warnings);
  warn(checkpoints_.changes());
  if (context_.rank() == 0) {
    const std::string room =
        check_disk_room(args_, parts_.plan, saved_bytes(args_, *model_), free_bytes_of(args_.output_dir));
    if (!room.empty()) warn({room});
  }
  context_.print(advice.text());
}

// The checkpoint already has as many steps as this run should do, or more. Callbacks are not called, because nothing is
// trained and what they wrote about the finished training must stay.
TrainOutput TrainingSession::end_at_once() {
  const std::int64_t step = context_.state.global_step;
  for (const std::string& change : checkpoints_.changes()) context_.print("warning: " + change);
  context_.print(
      fmt::format("Training is already complete: {} is of step {}, and this run ends with step {}. Nothing is "
                  "trained; to go on, ask for more (--max-steps, --num-train-epochs).",
                  checkpoints_.taken_up(), step, parts_.plan.max_steps));
  const bool has_best = !context_.state.best_model_checkpoint.empty();
  if (args_.load_best_model_at_end && step == parts_.plan.max_steps && has_best) parts_.best.load();
  keep_shards();
  TrainOutput output;
  output.global_step = step;
  output.already_complete = checkpoints_.taken_up();
  return output;
}

void TrainingSession::run_update() {
  context_.notify(&TrainerCallback::on_step_begin);
  const UpdateTotals totals = reduce(parts_.plan.has_shards ? run_shards() : run_micro_batches());
  context_.notify(&TrainerCallback::on_pre_optimizer_step);
  if (memory_) keep_outcome(totals);
  const bool is_updated = parts_.updater.step(engine_->gradient_factor(totals.count));
  waited_s_ += engine_->waited_s();
  end_update(totals, is_updated);
}

// What follows the optimizer's step.
void TrainingSession::end_update(const UpdateTotals& totals, bool is_updated) {
  require_sound_weights(totals);
  context_.notify(&TrainerCallback::on_optimizer_step);
  if (is_updated) parts_.updater.step_schedule();

  TrainerState& state = context_.state;
  ++state.global_step;
  state.epoch = parts_.progress.epochs();
  state.total_flos += totals.operations;
  note_loss(totals);
  context_.notify(&TrainerCallback::on_step_end);
  if (!stop_was_asked()) return;
  context_.control.should_save = args_.save_strategy != "no" || args_.enable_jit_checkpoint;
  context_.control.should_training_stop = true;
}

PartOfUpdate TrainingSession::run_micro_batches() {
  PartOfUpdate part;
  for (std::int64_t left = parts_.progress.next_window(); left > 0; --left) {
    GradientEngine::MicroBatch how;
    how.is_last = left == 1;
    how.loss_scale = parts_.updater.loss_scale();
    run_micro_batch(how, part.totals);
    if (!how.is_last) context_.notify(&TrainerCallback::on_substep_end);
  }
  return part;
}

// A shard's random numbers are a function of the seed, the update and the shard.
PartOfUpdate TrainingSession::run_shards() {
  PartOfUpdate part;
  GradientEngine::MicroBatch how;
  how.loss_scale = parts_.updater.loss_scale();
  const std::uint64_t of_seed = mix_bits(static_cast<std::uint64_t>(args_.seed) + 1);
  engine_->run_shards(of_seed + static_cast<std::uint64_t>(context_.state.global_step), [&](std::int64_t) {
    const std::optional<Batch> read = parts_.progress.next_micro_batch(part.shards.size());
    part.shards.push_back(read ? run_batch(on_device(*read, device_), how) : UpdateTotals());
  });
  return part;
}

void TrainingSession::run_micro_batch(const GradientEngine::MicroBatch& how, UpdateTotals& totals) {
  const std::optional<Batch> read = parts_.progress.next_micro_batch();
  if (!read) {
    const auto stand_in = [this] {
      const TrainerOptions& options = context_.options;
      return on_device(batch_of_first_sample(*options.train_dataset, options.data_collator), device_);
    };
    engine_->run_without_samples(stand_in, how);
    return;
  }
  totals.add(run_batch(on_device(*read, device_), how));
}

UpdateTotals TrainingSession::run_batch(const Batch& batch, const GradientEngine::MicroBatch& how) {
  const LossSum loss = engine_->run(batch, how);
  return {loss.sum.item<double>(), loss.count.item<std::int64_t>(), batch_size(batch),
          model_->floating_point_ops(batch)};
}

UpdateTotals TrainingSession::reduce(PartOfUpdate own) {
  own.stop_signal = signal_ ? signal_->received() : 0;
  double loss_of_rank = own.totals.loss;
  for (const UpdateTotals& shard : own.shards) loss_of_rank += shard.loss;
  const auto start = std::chrono::steady_clock::now();
  Communicator* const group = context_.group.get();
  const PartOfUpdate all = parts_.plan.has_shards ? add_over_shards(own, ShardTree(parts_.plan.world_size), group)
                                                  : add_over_ranks(own, group);
  if (group != nullptr) waited_s_ += seconds_since(start);
  if (stop_signal_ == 0) stop_signal_ = all.stop_signal;
  numbers_.check_loss(all.totals.loss, loss_of_rank);
  return all.totals;
}

// A weight that is NaN or infinite never recovers: to continue is useless, and each further checkpoint would replace a
// good one.
void TrainingSession::require_sound_weights(const UpdateTotals& totals) {
  if (!args_.stop_on_nan || (std::isfinite(totals.loss) && !parts_.updater.has_suspect_norm())) return;
  const std::string name = ModelWeights(context_).first_unsound();
  if (name.empty()) return;
  checkpoints_.wait();
  throw Error(
      fmt::format("the weights contain NaN or infinity (first in {})", name),
      fmt::format("step {}, rank {} of {}", context_.state.global_step + 1, context_.rank(), context_.world_size()),
      "lower learning_rate, set max_grad_norm or warmup_steps, look at the data of this step; checkpoints of "
      "earlier steps are whole. --stop-on-nan false continues regardless");
}

void TrainingSession::note_loss(const UpdateTotals& totals) {
  samples_of_session_ += totals.samples;
  if (totals.count == 0) return;  // no sample of this update had a label
  const double mean = totals.loss / static_cast<double>(totals.count);
  if (args_.logging_nan_inf_filter && !std::isfinite(mean)) return;
  parts_.losses.note(mean);
}

void TrainingSession::save() {
  TrainingCheckpoints::SaveOptions how;
  how.epoch_ended = epoch_ended_;
  how.wait = stop_was_asked() || args_.survive_lost_ranks;
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
  // If one checkpoint is kept, it is the best one; the last one was kept only for resuming.
  const std::optional<std::int64_t> best = context_.state.best_global_step;
  if (args_.save_total_limit == 1 && best && context_.rank() == 0 && !stop_was_asked()) {
    OutputFolder(real_file_system(), args_.output_dir).rotate(1, *best, best);
  }

  TrainOutput output;
  output.global_step = context_.state.global_step;
  output.training_loss = parts_.losses.session_mean();
  output.stopped_by_signal = stop_signal_;
  // Only this session's steps and training time count, without evaluating and saving.
  const double training_s = std::max(runtime_s - context_.other_time_s, 1e-9);
  const auto steps = static_cast<double>(output.global_step - first_step_);
  output.metrics = {{"train_runtime", rounded(runtime_s, 4)},
                    {"train_samples_per_second", rounded(static_cast<double>(samples_of_session_) / training_s, 3)},
                    {"train_steps_per_second", rounded(steps / training_s, 3)},
                    {"total_flos", context_.state.total_flos},
                    {"train_loss", output.training_loss}};
  context_.log(output.metrics);
  context_.keep_callback_states(context_.control);
  output.metrics.emplace_back("epoch", context_.state.epoch);
  context_.notify(&TrainerCallback::on_train_end);
  if (context_.world_size() > 1) {
    const std::string slow = slow_rank_line(*context_.group, waited_s_, training_s);
    if (!slow.empty()) context_.print(slow);
  }
  const std::string flat =
      first_step_ == 0 ? flat_loss_line(context_.state.log_history, context_.args().learning_rate) : "";
  if (!flat.empty()) context_.print(flat);
  keep_shards();
  return output;
}

}  // namespace lockstep
