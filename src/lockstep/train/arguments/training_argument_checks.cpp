#include <fmt/format.h>

#include <cmath>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/arguments/training_argument_table.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {
namespace {

void check_whole_steps(const char* name, double value, const std::string& where) {
  if (value < 1 || value == std::floor(value)) return;
  throw UsageError(fmt::format("{}: {} updates", name, value), where,
                   "give a whole number, or below 1 a part of all updates");
}

void check_together(const TrainingArguments& args, const std::string& where) {
  if (args.output_dir.empty()) throw UsageError("output_dir is empty", where, "name a folder");
  check_whole_steps("logging_steps", args.logging_steps, where);
  check_whole_steps("save_steps", args.save_steps, where);
  check_whole_steps("warmup_steps", args.warmup_steps, where);
  check_whole_steps("eval_steps", args.eval_steps.value_or(1), where);
  if (args.max_steps == 0) throw UsageError("max_steps: 0 updates", where, "give a number above 0, or -1 for epochs");
  if (args.load_best_model_at_end && args.eval_strategy == "no") {
    throw UsageError("load_best_model_at_end without evaluations: nothing says which model is best", where,
                     "set eval_strategy to steps or epoch");
  }
  if (args.load_best_model_at_end && args.save_strategy == "no") {
    throw UsageError("load_best_model_at_end with save_strategy no: the best model would be kept nowhere", where,
                     "set save_strategy to steps, epoch or best");
  }
  if (args.save_strategy == "best" && args.eval_strategy == "no") {
    throw UsageError("save_strategy best without evaluations", where, "set eval_strategy to steps or epoch");
  }
  if (args.lr_scheduler_type == "reduce_lr_on_plateau" && args.eval_strategy == "no") {
    throw UsageError("lr_scheduler_type reduce_lr_on_plateau follows evaluations, and there are none", where,
                     "set eval_strategy to steps or epoch");
  }
  if (args.dataloader_prefetch_factor && args.dataloader_num_workers == 0) {
    throw UsageError("dataloader_prefetch_factor without workers", where, "set dataloader_num_workers above 0");
  }
  if (args.warmup_steps > 0 && args.warmup_ratio > 0) {
    throw UsageError("warmup_steps and warmup_ratio both", where, "leave one of them out");
  }
  if (args.bf16 && args.fp16) {
    throw UsageError("bf16 and fp16 both", where, "leave one of them out: bf16 needs no scaled loss");
  }
  if (args.virtual_shards > 0 && args.gradient_accumulation_steps > 1) {
    throw UsageError(fmt::format("virtual_shards {} with gradient_accumulation_steps {}", args.virtual_shards,
                                 args.gradient_accumulation_steps),
                     where, "leave the latter out and take more shards: each is a micro-batch of the update");
  }
  if (args.survive_lost_ranks && args.virtual_shards == 0) {
    throw UsageError("survive_lost_ranks without virtual_shards: the update would have other samples on fewer ranks",
                     where,
                     "set virtual_shards, to the number of ranks or a multiple of it; or leave survive_lost_ranks out: "
                     "lockstep run --max-restarts N starts all ranks again");
  }
  check_sharding(args, where);
  if (args.parallel_mode == "single" && args.replicas > 1) {
    throw UsageError(fmt::format("parallel_mode single with {} replicas", args.replicas), where,
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
