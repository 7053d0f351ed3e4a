#include "lockstep/train/loop/training_update.h"

#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/base/signals.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/weights/model_weights.h"

namespace lockstep {
namespace {

Batch batch_of_first_sample(const Dataset& dataset, const Collate& collate) {
  if (!collate) return dataset.get_batch({0});
  return collate({dataset.get(0)});
}

}  // namespace

TrainingUpdate::TrainingUpdate(TrainerContext& context, TrainingParts& parts, TrainingCheckpoints& checkpoints)
    : context_(context),
      args_(context.args()),
      parts_(parts),
      checkpoints_(checkpoints),
      device_(device_of(*context.options.model)),
      numbers_(context) {
  if (args_.enable_jit_checkpoint) signal_ = std::make_unique<StopSignal>();
}

void TrainingUpdate::run(GradientEngine& engine, const std::function<void(const UpdateTotals&)>& before_step) {
  context_.notify(&TrainerCallback::on_step_begin);
  const UpdateTotals totals = reduce(parts_.plan.has_slices ? run_slices(engine) : run_micro_batches(engine));
  context_.notify(&TrainerCallback::on_pre_optimizer_step);
  before_step(totals);
  const bool is_updated = parts_.updater.step(engine.gradient_factor(totals.count));
  waited_s_ += engine.waited_s();
  end(totals, is_updated);
}

void TrainingUpdate::end(const UpdateTotals& totals, bool is_updated) {
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

PartOfUpdate TrainingUpdate::run_micro_batches(GradientEngine& engine) {
  PartOfUpdate part;
  for (std::int64_t left = parts_.progress.next_window(); left > 0; --left) {
    GradientEngine::MicroBatch how;
    how.is_last = left == 1;
    how.loss_scale = parts_.updater.loss_scale();
    run_micro_batch(engine, how, part.totals);
    if (!how.is_last) context_.notify(&TrainerCallback::on_substep_end);
  }
  return part;
}

// A slice's random numbers are a function of the seed, the update and the slice.
PartOfUpdate TrainingUpdate::run_slices(GradientEngine& engine) {
  PartOfUpdate part;
  GradientEngine::MicroBatch how;
  how.loss_scale = parts_.updater.loss_scale();
  const std::uint64_t of_seed = mix_bits(static_cast<std::uint64_t>(args_.seed) + 1);
  engine.run_slices(of_seed + static_cast<std::uint64_t>(context_.state.global_step), [&](std::int64_t) {
    const std::optional<Batch> read = parts_.progress.next_micro_batch(part.slices.size());
    part.slices.push_back(read ? run_batch(engine, on_device(*read, device_), how) : UpdateTotals());
  });
  return part;
}

void TrainingUpdate::run_micro_batch(GradientEngine& engine, const GradientEngine::MicroBatch& how,
                                     UpdateTotals& totals) {
  const std::optional<Batch> read = parts_.progress.next_micro_batch();
  if (!read) {
    const auto stand_in = [this] {
      const TrainerOptions& options = context_.options;
      return on_device(batch_of_first_sample(*options.train_dataset, options.data_collator), device_);
    };
    engine.run_without_samples(stand_in, how);
    return;
  }
  totals.add(run_batch(engine, on_device(*read, device_), how));
}

UpdateTotals TrainingUpdate::run_batch(GradientEngine& engine, const Batch& batch,
                                       const GradientEngine::MicroBatch& how) {
  const LossSum loss = engine.run(batch, how);
  // Both in one tensor: a device is waited for once.
  const at::Tensor both =
      at::stack({loss.sum.detach().to(at::kDouble), loss.count.to(loss.sum.device(), at::kDouble)}).cpu();
  return {both[0].item<double>(), static_cast<std::int64_t>(both[1].item<double>()), batch_size(batch),
          context_.options.model->floating_point_ops(batch)};
}

UpdateTotals TrainingUpdate::reduce(PartOfUpdate own) {
  own.stop_signal = signal_ ? signal_->received() : 0;
  double loss_of_rank = own.totals.loss;
  for (const UpdateTotals& slice : own.slices) loss_of_rank += slice.loss;
  const auto start = std::chrono::steady_clock::now();
  Communicator* const group = context_.group.get();
  const PartOfUpdate all = parts_.plan.has_slices ? add_over_slices(own, SliceTree(parts_.plan.world_size), group)
                                                  : add_over_ranks(own, group);
  if (group != nullptr) waited_s_ += seconds_since(start);
  if (stop_signal_ == 0) stop_signal_ = all.stop_signal;
  numbers_.check_loss(all.totals.loss, loss_of_rank);
  return all.totals;
}

// A weight that is NaN or infinite never recovers: to continue is useless, and each further checkpoint would replace a
// good one.
void TrainingUpdate::require_sound_weights(const UpdateTotals& totals) {
  if (!args_.stop_on_nan || (std::isfinite(totals.loss) && !parts_.updater.has_suspect_norm())) return;
  const std::string name = ModelWeights(context_).first_unsound();
  if (name.empty()) return;
  checkpoints_.wait();
  throw Error(
      fmt::format("the weights contain NaN or infinity (first in {})", name),
      fmt::format("step {}, rank {} of {}", context_.state.global_step + 1, context_.rank(), context_.world_size()),
      "lower learning_rate, set max_grad_norm or warmup_steps, and look at the data of this step; checkpoints of "
      "earlier steps are whole. --stop-on-nan false continues regardless");
}

void TrainingUpdate::note_loss(const UpdateTotals& totals) {
  samples_ += totals.samples;
  if (totals.count == 0) return parts_.losses.note_nothing();
  const double mean = totals.loss / static_cast<double>(totals.count);
  if (args_.logging_nan_inf_filter && !std::isfinite(mean)) return;
  parts_.losses.note(mean);
}

// The program is about to end with an exit code that would otherwise count as a failure.
void TrainingUpdate::record_asked_stop() const {
  const std::string signal = stop_signal_ == SIGINT ? "Ctrl-C (SIGINT)" : signal_name(stop_signal_);
  record_stop(
      fmt::format("the training was asked to end by {}: it stopped after update {}; resume_from_checkpoint true "
                  "continues it from the checkpoint in {}",
                  signal, context_.state.global_step, args_.output_dir),
      signal_ && signal_->received() != 0);
}

}  // namespace lockstep
