#include "lockstep/train/loop/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::int64_t divided_up(std::int64_t part, std::int64_t whole) { return (part + whole - 1) / whole; }

// Below 1, `steps` is a fraction of all updates.
std::int64_t resolved_steps(double steps, std::int64_t max_steps) {
  return steps < 1 ? static_cast<std::int64_t>(std::ceil(steps * static_cast<double>(max_steps)))
                   : static_cast<std::int64_t>(steps);
}

void plan_epoch(const TrainingArguments& args, TrainingPlan& plan) {
  const std::int64_t per_micro_batch = plan.rank_batch_size * plan.world_size;
  plan.global_batch_size = per_micro_batch * plan.accumulation;
  // The rank with the largest share decides; the other ranks take part without samples.
  const std::int64_t whole = plan.samples / plan.world_size / plan.rank_batch_size;
  const std::int64_t all = divided_up(divided_up(plan.samples, plan.world_size), plan.rank_batch_size);
  plan.micro_batches_per_epoch = args.dataloader_drop_last ? whole : all;
  if (plan.micro_batches_per_epoch == 0) {
    throw UsageError(
        fmt::format(
            "{} samples do not fill a batch of {} on {} {}, and dataloader_drop_last leaves out smaller batches",
            plan.samples, plan.rank_batch_size, plan.world_size, plan.has_slices ? "virtual shards" : "ranks"),
        "training data", "use a smaller per_device_train_batch_size, or leave dataloader_drop_last out");
  }
  plan.dropped_samples = args.dataloader_drop_last ? plan.samples - whole * per_micro_batch : 0;
  plan.updates_per_epoch = updates_of(plan.micro_batches_per_epoch, plan);
  const std::int64_t before_last = plan.updates_per_epoch - 1;
  plan.last_micro_batches = plan.micro_batches_per_epoch - before_last * plan.accumulation;
  plan.last_update_samples = plan.samples - plan.dropped_samples - before_last * plan.global_batch_size;
}

}  // namespace

TrainingPlan make_training_plan(const TrainingArguments& args, std::int64_t samples, std::int64_t world_size,
                                std::int64_t replicas) {
  if (samples < 1) throw UsageError("there are no samples to train on", "training data", "give a file with rows");
  TrainingPlan plan;
  plan.samples = samples;
  plan.has_slices = args.virtual_shards > 0;
  plan.world_size = plan.has_slices ? args.virtual_shards : world_size;
  plan.replicas = replicas;
  plan.rank_batch_size = args.per_device_train_batch_size * replicas;
  plan.accumulation = args.gradient_accumulation_steps;
  plan_epoch(args, plan);

  set_max_steps(args, args.max_steps > 0 ? args.max_steps : updates_in(args.num_train_epochs, plan), plan);
  plan.num_epochs = divided_up(plan.max_steps, plan.updates_per_epoch);
  return plan;
}

std::int64_t updates_of(std::int64_t micro_batches, const TrainingPlan& plan) {
  return divided_up(micro_batches, plan.accumulation);
}

std::int64_t updates_in(double epochs, const TrainingPlan& plan) {
  const double updates = epochs * static_cast<double>(plan.updates_per_epoch);
  if (updates > 1e15) {
    throw UsageError(fmt::format("num_train_epochs {} makes {} updates", epochs, updates), "training arguments",
                     "take fewer epochs");
  }
  return static_cast<std::int64_t>(std::ceil(updates));
}

void set_max_steps(const TrainingArguments& args, std::int64_t max_steps, TrainingPlan& plan) {
  plan.max_steps = max_steps;
  const double warmup = args.warmup_steps > 0 ? args.warmup_steps : args.warmup_ratio;
  // A ratio of exactly 1 means all updates, not one update.
  plan.warmup_steps = args.warmup_steps == 0 && args.warmup_ratio == 1 ? max_steps : resolved_steps(warmup, max_steps);
  plan.logging_steps = resolved_steps(args.logging_steps, max_steps);
  // Hugging Face's default if evaluations do not depend on steps.
  const double default_eval_steps = args.eval_strategy == "steps" ? args.logging_steps : 500;
  plan.eval_steps = resolved_steps(args.eval_steps.value_or(default_eval_steps), max_steps);
  plan.save_steps = resolved_steps(args.save_steps, max_steps);
}

void set_planned_numbers(const TrainingPlan& plan, TrainerState& state) {
  state.max_steps = plan.max_steps;
  state.num_train_epochs = plan.num_epochs;
  state.logging_steps = plan.logging_steps;
  state.eval_steps = plan.eval_steps;
  state.save_steps = plan.save_steps;
  state.train_batch_size = plan.rank_batch_size;
}

}  // namespace lockstep
