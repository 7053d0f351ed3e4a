#include "lockstep/train/arguments/training_argument_table.h"

#include <algorithm>
#include <map>

#include "lockstep/optim/schedule.h"

namespace lockstep {
namespace {

using Args = TrainingArguments;

std::vector<std::string> scheduler_choices() {
  std::vector<std::string> names = schedule_names();
  names.push_back("reduce_lr_on_plateau");
  return names;
}

// Writes a row: bounds, choices and aliases by name, after the three parts that every row has.
class Row : public TrainingArgumentRow {
 public:
  Row(const char* called, TrainingArgumentMember held_by, const char* explained)
      : TrainingArgumentRow{called, held_by, explained} {}
  Row&& one_of(std::vector<std::string> texts) {
    choices = std::move(texts);
    return std::move(*this);
  }
  Row&& at_least(double bound) {
    least = bound;
    return std::move(*this);
  }
  Row&& above(double bound) {
    above_least = true;
    return at_least(bound);
  }
  Row&& at_most(double bound) {
    most = bound;
    return std::move(*this);
  }
  Row&& or_named(const char* alias) {
    aliases.emplace_back(alias);
    return std::move(*this);
  }
};

std::vector<TrainingArgumentRow> results_and_length() {
  return {
      Row("output_dir", &Args::output_dir, "folder for checkpoints, logs and the trained model"),
      Row("resume_from_checkpoint", &Args::resume_from_checkpoint,
          "continue from this checkpoint; 'true': from the newest whole one in output_dir"),
      Row("allow_world_size_change", &Args::allow_world_size_change,
          "continue from a checkpoint of another number of ranks"),
      Row("per_device_train_batch_size", &Args::per_device_train_batch_size,
          "samples of one rank or replica in a micro-batch")
          .at_least(1),
      Row("per_device_eval_batch_size", &Args::per_device_eval_batch_size,
          "samples of one rank or replica in evaluation")
          .at_least(1),
      Row("gradient_accumulation_steps", &Args::gradient_accumulation_steps, "micro-batches of one update").at_least(1),
      Row("num_train_epochs", &Args::num_train_epochs, "passes over the training data; may be a fraction").above(0),
      Row("max_steps", &Args::max_steps, "updates; above 0 it wins over num_train_epochs").at_least(-1),
  };
}

std::vector<TrainingArgumentRow> optimizer_and_loss() {
  return {
      Row("optim", &Args::optim, "optimizer").one_of({"adamw_torch", "adamw_torch_fused", "sgd"}),
      Row("learning_rate", &Args::learning_rate, "learning rate of the first update after warm-up")
          .at_least(0)
          .or_named("lr"),
      Row("weight_decay", &Args::weight_decay, "weight decay of all parameters except biases and normalisation layers")
          .at_least(0),
      Row("adam_beta1", &Args::adam_beta1, "decay of the gradient's running mean").at_least(0).at_most(0.999999),
      Row("adam_beta2", &Args::adam_beta2, "decay of the squared gradient's running mean")
          .at_least(0)
          .at_most(0.9999999),
      Row("adam_epsilon", &Args::adam_epsilon, "number added to the denominator").at_least(0),
      Row("max_grad_norm", &Args::max_grad_norm, "clip the gradients' norm to this; 0: no clipping").at_least(0),
      Row("lr_scheduler_type", &Args::lr_scheduler_type, "schedule of the learning rate").one_of(scheduler_choices()),
      Row("lr_scheduler_kwargs", &Args::lr_scheduler_kwargs, "the schedule's own arguments, as a JSON object"),
      Row("warmup_steps", &Args::warmup_steps, "warm-up updates; below 1: a fraction of all updates").at_least(0),
      Row("warmup_ratio", &Args::warmup_ratio, "fraction of all updates that are warm-up").at_least(0).at_most(1),
      Row("bf16", &Args::bf16, "compute in bf16 where it is safe; weights stay fp32, and small models gain little"),
      Row("fp16", &Args::fp16, "compute in fp16 where it is safe, with a scaled loss"),
      Row("label_smoothing_factor", &Args::label_smoothing_factor,
          "share of each label's weight that is spread over all classes")
          .at_least(0)
          .at_most(1),
      Row("gradient_checkpointing", &Args::gradient_checkpointing,
          "recompute activations in backward: less memory, more time")
          .or_named("activation_checkpointing"),
  };
}

std::vector<TrainingArgumentRow> cadence() {
  const std::vector<std::string> strategies{"no", "steps", "epoch"};
  return {
      Row("logging_strategy", &Args::logging_strategy, "when to log").one_of(strategies),
      Row("logging_steps", &Args::logging_steps, "updates between two logs; below 1: a fraction of all updates")
          .above(0),
      Row("logging_first_step", &Args::logging_first_step, "log the first update too"),
      Row("logging_nan_inf_filter", &Args::logging_nan_inf_filter,
          "leave losses that are NaN or infinite out of logged means"),
      Row("stop_on_nan", &Args::stop_on_nan, "end with an error once the weights are NaN or infinite"),
      Row("eval_strategy", &Args::eval_strategy, "when to evaluate").one_of(strategies).or_named("evaluation_strategy"),
      Row("eval_steps", &Args::eval_steps, "updates between two evaluations; default: logging_steps").above(0),
      Row("eval_delay", &Args::eval_delay, "epochs or updates before the first evaluation").at_least(0),
      Row("eval_on_start", &Args::eval_on_start, "evaluate before the first update"),
      Row("prediction_loss_only", &Args::prediction_loss_only, "evaluate only the loss, no metrics"),
      Row("save_strategy", &Args::save_strategy, "when to save a checkpoint").one_of({"no", "steps", "epoch", "best"}),
      Row("save_steps", &Args::save_steps, "updates between two checkpoints; below 1: a fraction of all updates")
          .above(0),
      Row("save_total_limit", &Args::save_total_limit, "number of checkpoints to keep: the newest, and the best")
          .at_least(1),
      Row("save_only_model", &Args::save_only_model,
          "checkpoints contain only the model, so no training can resume from them"),
      Row("save_in_background", &Args::save_in_background,
          "continue training while a copy of the checkpoint's content is written; default: true unless weights are in "
          "shards"),
      Row("enable_jit_checkpoint", &Args::enable_jit_checkpoint,
          "on Ctrl-C, SIGTERM, SIGUSR1 or another warning from a batch system, save a checkpoint and end with code 130 "
          "or 143"),
      Row("load_best_model_at_end", &Args::load_best_model_at_end, "end with the weights of the best evaluation"),
      Row("metric_for_best_model", &Args::metric_for_best_model,
          "metric that decides which model is best; default: loss"),
      Row("greater_is_better", &Args::greater_is_better,
          "whether a greater metric is better; default: true unless its name ends in 'loss'"),
  };
}

std::vector<TrainingArgumentRow> data_and_ranks() {
  return {
      Row("seed", &Args::seed, "seed of weights, dropout and the order of samples").at_least(0),
      Row("data_seed", &Args::data_seed, "seed of only the order of samples").at_least(0),
      Row("dataloader_num_workers", &Args::dataloader_num_workers, "threads that read ahead").at_least(0).at_most(1024),
      Row("dataloader_prefetch_factor", &Args::dataloader_prefetch_factor, "batches that each thread may read ahead")
          .at_least(1)
          .at_most(1024),
      Row("dataloader_drop_last", &Args::dataloader_drop_last, "leave out the epoch's last, smaller batch"),
      Row("group_by_length", &Args::group_by_length, "put samples of similar length together")
          .or_named("train_sampling_strategy"),
      Row("use_cpu", &Args::use_cpu, "stay on the CPU even if CUDA is available").or_named("no_cuda"),
      Row("parallel_mode", &Args::parallel_mode, "how devices share the work").one_of({"auto", "single", "dp", "ddp"}),
      Row("replicas", &Args::replicas, "copies of the model in one process (dp); 0: one for each device")
          .at_least(0)
          .at_most(256),
      Row("ddp_backend", &Args::ddp_backend, "engine that connects the ranks; default: the fastest that fits"),
      Row("ddp_bucket_cap_mb", &Args::ddp_bucket_cap_mb, "MiB of gradients sent together").above(0).at_most(65536),
      Row("ddp_broadcast_buffers", &Args::ddp_broadcast_buffers, "send rank 0's buffers before each forward"),
      Row("ddp_timeout", &Args::ddp_timeout, "seconds after which a collective fails").above(0).at_most(31536000),
      Row("fuse", &Args::fuse, "let ranks share the work of the update if they can"),
      Row("virtual_shards", &Args::virtual_shards,
          "parts of each update; above 0: the same bits on any number of ranks")
          .at_least(0)
          .at_most(65536),
      Row("survive_lost_ranks", &Args::survive_lost_ranks,
          "if a rank is lost, the others continue; needs virtual_shards and lockstep run"),
      Row("fsdp", &Args::fsdp, "shard_grad_op, hybrid_shard: ranks also shard gradients; full_shard: also weights"),
      Row("fsdp_config", &Args::fsdp_config,
          "options of FullyShardedDataParallel, as JSON; most have no counterpart here"),
      Row("disable_tqdm", &Args::disable_tqdm, "show no progress bar; default: true unless in a terminal"),
      Row("report_to", &Args::report_to, "what else records the logs").one_of({"none", "tensorboard", "all"}),
      Row("logging_dir", &Args::logging_dir, "folder for TensorBoard's files"),
  };
}

std::vector<TrainingArgumentRow> all_rows() {
  std::vector<TrainingArgumentRow> rows = results_and_length();
  for (auto part : {optimizer_and_loss(), cadence(), data_and_ranks()}) {
    for (TrainingArgumentRow& row : part) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

const std::vector<TrainingArgumentRow>& training_argument_table() {
  static const std::vector<TrainingArgumentRow> table = all_rows();
  return table;
}

const TrainingArgumentRow* find_training_argument(const std::string& name) {
  for (const TrainingArgumentRow& row : training_argument_table()) {
    const auto& aliases = row.aliases;
    if (row.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return &row;
  }
  return nullptr;
}

std::string script_flag(const std::string& name) {
  static const std::map<std::string, std::string> flags{{"model_name_or_path", "--model"},
                                                        {"tokenizer_name", "--tokenizer"},
                                                        {"task_name", "--task"},
                                                        {"train_file", "--train-file"},
                                                        {"validation_file", "--validation-file"},
                                                        {"test_file", "--validation-file"},
                                                        {"text_column_names", "--text-column"},
                                                        {"text_column_name", "--text-column"},
                                                        {"label_column_name", "--label-column"},
                                                        {"max_seq_length", "--max-length"},
                                                        {"block_size", "--block-size"},
                                                        {"max_train_samples", "--max-train-samples"},
                                                        {"max_eval_samples", "--max-eval-samples"},
                                                        {"metric_name", "--metrics"},
                                                        {"ignore_mismatched_sizes", "--ignore-mismatched-sizes"}};
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second;
}

}  // namespace lockstep
