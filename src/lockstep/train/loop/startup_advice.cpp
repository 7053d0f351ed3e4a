#include "lockstep/train/loop/startup_advice.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lockstep/base/processor/blas.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/train/checks/disk_room.h"
#include "lockstep/train/checks/earlier_results.h"
#include "lockstep/train/loop/training_checkpoints.h"

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

// "8 samples x 2 ranks x 4 micro-batches = 64"
std::string batch_arithmetic(const TrainingArguments& args, const TrainingPlan& plan) {
  std::string text = fmt::format("{} per device", args.per_device_train_batch_size);
  if (plan.replicas > 1) text += fmt::format(" x {} replicas", plan.replicas);
  if (plan.has_slices) {
    text = fmt::format("{} per shard x {} virtual shards", args.per_device_train_batch_size, plan.world_size);
  } else if (plan.world_size > 1) {
    text += fmt::format(" x {} ranks", plan.world_size);
  }
  if (plan.accumulation > 1) text += fmt::format(" x {} accumulated", plan.accumulation);
  return text + fmt::format(" = {} samples", plan.global_batch_size);
}

Lines facts_of(const TrainingArguments& args, const TrainingPlan& plan, const ParallelChoice& choice,
               std::int64_t parameters) {
  Lines facts;
  facts.push_back(fmt::format("Num examples = {}", plan.samples));
  facts.push_back(fmt::format("Num Epochs = {}", plan.num_epochs));
  facts.push_back("Parallel mode = " + choice.text);
  facts.push_back("Total train batch size = " + batch_arithmetic(args, plan));
  facts.push_back(fmt::format("Steps per epoch = {}{}", plan.updates_per_epoch,
                              plan.last_update_samples == plan.global_batch_size
                                  ? ""
                                  : fmt::format(", the last one of {} samples", plan.last_update_samples)));
  facts.push_back(fmt::format("Total optimization steps = {}", plan.max_steps));
  facts.push_back(fmt::format("Number of trainable parameters = {}", parameters));
  facts.push_back(fmt::format("Threads = {} of {} cores, BLAS {}", plan.has_slices ? 1 : at::get_num_threads(),
                              available_cores(), loaded_blas().name));
  return facts;
}

void warn_of_data(const TrainingPlan& plan, Lines& warnings) {
  if (plan.dropped_samples > 0) {
    warnings.push_back(fmt::format("dataloader_drop_last leaves out {} of {} samples in each epoch",
                                   plan.dropped_samples, plan.samples));
  }
  if (plan.accumulation > plan.micro_batches_per_epoch) {
    warnings.push_back(fmt::format(
        "gradient_accumulation_steps {} is more than the {} micro-batches of an epoch: each epoch is one update",
        plan.accumulation, plan.micro_batches_per_epoch));
  } else if (plan.last_micro_batches != plan.accumulation) {
    warnings.push_back(
        fmt::format("the last update of each epoch accumulates {} micro-batches, not {}: its gradient is "
                    "the mean of its own samples",
                    plan.last_micro_batches, plan.accumulation));
  }
  if (plan.samples < plan.world_size) {
    warnings.push_back(fmt::format("{} {} share {} samples: some have none", plan.world_size,
                                   plan.has_slices ? "virtual shards" : "ranks", plan.samples));
  }
}

void warn_of_cadence(const TrainingArguments& args, const TrainingPlan& plan, bool has_eval, Lines& warnings) {
  if (args.logging_strategy == "steps" && plan.logging_steps > plan.max_steps) {
    warnings.push_back(fmt::format("logging_steps ({}) > total steps ({}): no training loss will be logged",
                                   plan.logging_steps, plan.max_steps));
  }
  if (args.eval_strategy == "steps" && has_eval && plan.eval_steps > plan.max_steps) {
    warnings.push_back(
        fmt::format("eval_steps ({}) > total steps ({}): nothing will be evaluated", plan.eval_steps, plan.max_steps));
  }
  if (has_eval && args.eval_strategy == "no") {
    warnings.push_back(
        "there is evaluation data, but eval_strategy is no: nothing is evaluated before training has ended");
  }
  if (args.load_best_model_at_end && args.save_strategy != "best" &&
      (args.save_strategy != args.eval_strategy ||
       (args.save_strategy == "steps" && plan.save_steps % plan.eval_steps != 0))) {
    warnings.push_back("evaluations and checkpoints are at different steps: each best model is saved as well");
  }
  if (plan.warmup_steps >= plan.max_steps && plan.warmup_steps > 0) {
    warnings.push_back(fmt::format("warm-up takes {} of {} steps: the learning rate never reaches its full value",
                                   plan.warmup_steps, plan.max_steps));
  }
}

void warn_of_machine(const TrainingPlan& plan, Lines& warnings) {
  if (loaded_blas().is_reference()) {
    warnings.push_back("the reference BLAS is loaded: matrix products are many times slower than with OpenBLAS");
  }
  if (plan.world_size == 1 || plan.has_slices) return;  // a slice is computed with one thread
  const int threads = at::get_num_threads();
  if (threads * plan.world_size > available_cores() * 2 && threads > 1) {
    warnings.push_back(
        fmt::format("{} threads in each of {} ranks on {} cores: set OMP_NUM_THREADS, or start with "
                    "lockstep run, which does",
                    threads, plan.world_size, available_cores()));
  }
}

}  // namespace

std::string StartupAdvice::text() const {
  std::string text = "***** Running training *****\n";
  for (const std::string& fact : facts) text += "  " + fact + "\n";
  for (const std::string& warning : warnings) text += "  warning: " + warning + "\n";
  return text;
}

std::int64_t trainable_numbers(TrainableModel& model) {
  std::int64_t numbers = 0;
  for (const NamedTensor& parameter : model.tensors().parameters) {
    if (parameter.tensor.requires_grad()) numbers += parameter.tensor.numel();
  }
  return numbers;
}

StartupAdvice startup_advice(const TrainingArguments& args, const TrainingPlan& plan, const ParallelChoice& choice,
                             std::int64_t parameters, bool has_eval) {
  StartupAdvice advice;
  advice.facts = facts_of(args, plan, choice, parameters);
  warn_of_data(plan, advice.warnings);
  warn_of_cadence(args, plan, has_eval, advice.warnings);
  warn_of_machine(plan, advice.warnings);
  return advice;
}

std::string startup_text(const TrainerContext& context, const TrainingPlan& plan, ParallelChoice choice,
                         const std::string& fused, const std::vector<std::string>& changes) {
  const TrainingArguments& args = context.args();
  TrainableModel& model = *context.options.model;
  if (!fused.empty()) choice.text += ", fused update with " + fused;
  if (args.survive_lost_ranks) choice.text += ", survives lost ranks";
  if (args.survive_lost_ranks && args.fuse && fused.empty()) choice.text += " (the update is not fused)";
  const bool has_eval = context.options.eval_dataset != nullptr;
  StartupAdvice advice = startup_advice(args, plan, choice, trainable_numbers(model), has_eval);
  const auto add = [](const Lines& from, Lines& to) { to.insert(to.end(), from.begin(), from.end()); };
  add(context.options.facts, advice.facts);
  if (context.precision.autocast) advice.facts.push_back("Mixed precision = " + context.precision.name());
  add(context.options.warnings, advice.warnings);
  add(changes, advice.warnings);
  if (context.rank() == 0) {
    const std::string room = check_disk_room(args, plan, saved_bytes(args, model), free_bytes_of(args.output_dir));
    if (!room.empty()) advice.warnings.push_back(room);
    const std::string earlier =
        TrainingCheckpoints::are_asked_for(args) ? "" : earlier_results_line(args.output_dir, args.save_total_limit);
    if (!earlier.empty()) advice.warnings.push_back(earlier);
  }
  return advice.text();
}

}  // namespace lockstep
