#include <fmt/format.h>

#include <cmath>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/arguments/training_argument_table.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {
namespace {

void check_whole_steps(const char* name, double value, const std::string& where) {
  if (value < 1 || value == std::floor(value)) return;
  throw UsageError(fmt::format("{} cannot be {} updates", name, value), where,
                   "give a whole number, or below 1 a fraction of all updates");
}

void check_together(const TrainingArguments& args, const std::string& where) {
  if (args.output_dir.empty()) throw UsageError("output_dir is empty", where, "name a folder");
  check_whole_steps("logging_steps", args.logging_steps, where);
  check_whole_steps("save_steps", args.save_steps, where);
  check_whole_steps("warmup_steps", args.warmup_steps, where);
  check_whole_steps("eval_steps", args.eval_steps.value_or(1), where);
  if (args.max_steps == 0) throw UsageError("max_steps cannot be 0", where, "give a number above 0, or -1 for epochs");
  if (args.load_best_model_at_end && args.eval_strategy == "no") {
    throw UsageError("load_best_model_at_end needs evaluations: without them it is unknown which model is best", where,
                     "set eval_strategy to steps or epoch");
  }
  if (args.load_best_model_at_end && args.save_strategy == "no") {
    throw UsageError(
        "load_best_model_at_end cannot be combined with save_strategy no: the best model would not be saved", where,
        "set save_strategy to steps, epoch or best");
  }
  if (args.save_strategy == "best" && args.eval_strategy == "no") {
    throw UsageError("save_strategy best needs evaluations", where, "set eval_strategy to steps or epoch");
  }
  if (args.lr_scheduler_type == "reduce_lr_on_plateau" && args.eval_strategy == "no") {
    throw UsageError("lr_scheduler_type reduce_lr_on_plateau follows evaluations, but there are none", where,
                     "set eval_strategy to steps or epoch");
  }
  if (args.dataloader_prefetch_factor && args.dataloader_num_workers == 0) {
    throw UsageError("dataloader_prefetch_factor needs workers", where, "set dataloader_num_workers above 0");
  }
  if (args.warmup_steps > 0 && args.warmup_ratio > 0) {
    throw UsageError("warmup_steps and warmup_ratio cannot be combined", where, "leave one of them out");
  }
  if (args.bf16 && args.fp16) {
    throw UsageError("bf16 and fp16 cannot be combined", where, "leave one of them out; bf16 needs no scaled loss");
  }
  Features features;
  if (args.virtual_shards > 0)
    features.add(Feature::VirtualShards, fmt::format("virtual_shards {}", args.virtual_shards));
  if (args.survive_lost_ranks) features.add(Feature::Survival, "survive_lost_ranks");
  if (args.gradient_accumulation_steps > 1) {
    features.add(Feature::Accumulation,
                 fmt::format("gradient_accumulation_steps {}", args.gradient_accumulation_steps));
  }
  features.require_together<UsageError>(where);
  check_sharding(args, where);
  if (args.parallel_mode == "single" && args.replicas > 1) {
    throw UsageError(fmt::format("parallel_mode single cannot be combined with {} replicas", args.replicas), where,
                     "set parallel_mode to dp, or leave replicas out");
  }
}

}  // namespace

void check_training_arguments(const TrainingArguments& arguments, const std::string& where) {
  // A program may have set values without any check.
  TrainingArguments checked;
  const nlohmann::json values = to_json(arguments);
  for (const TrainingArgumentRow& row : training_argument_table()) {
    set_training_argument(checked, row.name, values.at(row.name), where);
  }
  check_together(arguments, where);
}

}  // namespace lockstep
