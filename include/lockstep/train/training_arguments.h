#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// How a Trainer trains: the arguments of Hugging Face's TrainingArguments that concern data parallelism, under their
/// names. `nothing` stands for Python's None. Defaults are Hugging Face's, except for the four that
/// docs/reference/trainer.md names: `optim`, `logging_nan_inf_filter`, `enable_jit_checkpoint`, `ddp_timeout`.
struct TrainingArguments {
  // Output, and the checkpoint to resume from.
  std::string output_dir = "trainer_output";
  std::optional<std::string> resume_from_checkpoint;  ///< a checkpoint's folder, or "true": the newest whole one
  bool allow_world_size_change = false;               ///< resume with a number of ranks other than the checkpoint's

  // Batches and length.
  std::int64_t per_device_train_batch_size = 8;  ///< for each rank or replica
  std::int64_t per_device_eval_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;  ///< micro-batches per update
  double num_train_epochs = 3.0;                 ///< a fraction ends within an epoch
  std::int64_t max_steps = -1;                   ///< updates; if above 0, num_train_epochs is ignored

  // Optimizer and schedule.
  std::string optim = "adamw_torch";
  double learning_rate = 5e-5;
  double weight_decay = 0.0;  ///< not applied to biases and normalisation layers
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  ///< 0: no clipping
  std::string lr_scheduler_type = "linear";
  nlohmann::json lr_scheduler_kwargs;  ///< object, or null
  double warmup_steps = 0;             ///< updates; below 1: a fraction of all updates
  double warmup_ratio = 0.0;           ///< fraction of all updates; an older name of warmup_steps

  // Precision and loss.
  bool bf16 = false;  ///< autocast to bf16; without bf16 and fp16: ACCELERATE_MIXED_PRECISION, else no
  bool fp16 = false;  ///< autocast to fp16 with a scaled loss
  double label_smoothing_factor = 0.0;  ///< share of each label that all classes get
  bool gradient_checkpointing = false;

  // When to log, evaluate and save.
  std::string logging_strategy = "steps";
  double logging_steps = 500;  ///< updates; below 1: a fraction of all updates. This holds for the next two, too
  bool logging_first_step = false;
  bool logging_nan_inf_filter = false;  ///< true: leave NaN and infinite losses out of logged means
  bool stop_on_nan = true;              ///< end with an error when weights contain NaN or infinity
  std::string eval_strategy = "no";
  std::optional<double> eval_steps;  ///< nothing: logging_steps
  double eval_delay = 0;             ///< epochs or steps, as eval_strategy, without evaluation at the start
  bool eval_on_start = false;
  bool prediction_loss_only = false;
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<std::int64_t> save_total_limit;  ///< checkpoints to keep; nothing: all
  bool save_only_model = false;
  /// The training continues while a copy of what a checkpoint holds is written. Nothing: unless weights are in shards
  /// (full_shard), whose ranks may have no memory for such a copy of their share.
  std::optional<bool> save_in_background;
  bool enable_jit_checkpoint = true;  ///< SIGTERM, SIGINT: finish the update, save, end

  // The best model.
  bool load_best_model_at_end = false;
  std::optional<std::string> metric_for_best_model;  ///< nothing: loss
  std::optional<bool> greater_is_better;             ///< nothing: true unless the metric ends in "loss"

  // Randomness and data.
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;                   ///< seed of the samples' order; nothing: seed
  std::int64_t dataloader_num_workers = 0;                 ///< threads that read ahead, on each rank
  std::optional<std::int64_t> dataloader_prefetch_factor;  ///< batches that each worker may be ahead; nothing: 2
  bool dataloader_drop_last = false;
  bool group_by_length = false;

  // Devices and parallelism.
  bool use_cpu = false;                ///< stay on the CPU even if CUDA exists
  std::string parallel_mode = "auto";  ///< single, dp, ddp; auto: ddp under a launcher, dp with several replicas
  std::int64_t replicas = 0;           ///< replicas of dp; 0: one for each device
  std::optional<std::string> ddp_backend;
  std::optional<double> ddp_bucket_cap_mb;  ///< MiB; nothing: as DistributedDataParallelOptions
  std::optional<bool> ddp_broadcast_buffers;
  std::optional<double> ddp_timeout;  ///< seconds; nothing: as init_process_group
  bool fuse = true;                   ///< ddp: ranks share the update if they can
  /// Above 0: an update has this many virtual shards of per_device_train_batch_size samples each, shared by the ranks,
  /// and the training has the same bits for every number of ranks.
  std::int64_t virtual_shards = 0;
  /// If a rank is lost, the others finish the training without it, and let a new rank join that `lockstep run` starts
  /// in its place. Needs virtual_shards, so that the result has the bits of the undisturbed training. `fuse` has no
  /// effect then, and each checkpoint is awaited. See docs/reference/survival.md.
  bool survive_lost_ranks = false;
  /// ddp: "shard_grad_op" shares gradients out too (FuseOptions::stage 2), "full_shard" and "true" also weights (stage
  /// 3), "no_shard" neither; "hybrid_shard" and "hybrid_shard_zero2" are "shard_grad_op" where the ranks of each host
  /// have one copy of the weights, and are refused elsewhere. "auto_wrap" beside it changes nothing, and alone it is
  /// "true".
  std::optional<std::vector<std::string>> fsdp;
  /// FSDP's options: transformer_layer_cls_to_wrap, min_num_params and reshard_after_forward go with "full_shard";
  /// reshard_after_forward false with fsdp true is "shard_grad_op", and a strategy's name there or in
  /// sharding_strategy, as in FSDP1, is that strategy.
  nlohmann::json fsdp_config;

  // What is displayed.
  std::optional<bool> disable_tqdm;  ///< nothing: no progress bar unless stderr is a terminal
  std::vector<std::string> report_to = {"none"};
  std::optional<std::string> logging_dir;  ///< folder of TensorBoard's files; nothing: runs/ in output_dir
};

/// Sets the argument `name` to a JSON value. An alias such as `evaluation_strategy` is accepted, and hyphens stand for
/// underscores. null is `nothing`.
/// @param where  named in errors: a file, or "command line"
/// @throws UsageError  if the argument does not exist (it suggests the nearest name), if it is Hugging Face's and not
/// supported here, or if the value has another type or is out of range
void set_training_argument(TrainingArguments& arguments, const std::string& name, const nlohmann::json& value,
                           const std::string& where);
/// Sets an argument from the text of a flag.
void set_training_argument(TrainingArguments& arguments, const std::string& name, const std::string& text,
                           const std::string& where);

/// Sets all arguments that the file `path` names: a JSON object, or a YAML mapping (.yaml, .yml).
/// @throws UsageError  as set_training_argument, naming the file; Error  if it cannot be read
void read_training_arguments(TrainingArguments& arguments, const std::string& path);
/// All arguments, sorted by name.
nlohmann::json to_json(const TrainingArguments& arguments);

/// Checks the range of each value, and values that contradict each other.
/// @throws UsageError  that names the flag and the fix
void check_training_arguments(const TrainingArguments& arguments, const std::string& where = "TrainingArguments");

/// The description of one argument for help texts and documentation.
struct TrainingArgumentInfo {
  std::string name;
  std::string value;          ///< kind: "NUMBER", "true|false", the choices
  std::string default_value;  ///< as JSON
  std::string help;
  bool is_switch = false;  ///< a flag without a value sets true
  std::vector<std::string> aliases;
};
/// Describes every argument, in the order of the struct.
std::vector<TrainingArgumentInfo> training_argument_infos();

}  // namespace lockstep
