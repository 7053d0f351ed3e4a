#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// How a Trainer trains: the arguments of Hugging Face's TrainingArguments that concern data parallelism, under their
/// names. `nothing` stands for Python's None. Defaults are theirs but for the four that docs/reference/trainer.md
/// names: `optim`, `logging_nan_inf_filter`, `enable_jit_checkpoint`, `ddp_timeout`.
struct TrainingArguments {
  // Where results go, and where to go on from.
  std::string output_dir = "trainer_output";
  std::optional<std::string> resume_from_checkpoint;  ///< a checkpoint's folder, or "true": the newest whole one
  bool allow_world_size_change = false;               ///< go on with another number of ranks than it was saved with

  // Batches and length.
  std::int64_t per_device_train_batch_size = 8;  ///< of each rank or replica
  std::int64_t per_device_eval_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;  ///< micro-batches of one update
  double num_train_epochs = 3.0;                 ///< a fraction ends within an epoch
  std::int64_t max_steps = -1;                   ///< updates; above 0 it wins over num_train_epochs

  // Optimizer and schedule.
  std::string optim = "adamw_torch";
  double learning_rate = 5e-5;
  double weight_decay = 0.0;  ///< not of biases and normalisation layers
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  ///< 0: no clipping
  std::string lr_scheduler_type = "linear";
  nlohmann::json lr_scheduler_kwargs;  ///< object, or null
  double warmup_steps = 0;             ///< updates; below 1: that part of all updates
  double warmup_ratio = 0.0;           ///< part of all updates; older name of the same

  // Precision and loss.
  bool bf16 = false;  ///< autocast to bf16; neither: as ACCELERATE_MIXED_PRECISION says, else no
  bool fp16 = false;  ///< autocast to fp16 with a scaled loss
  double label_smoothing_factor = 0.0;
  bool gradient_checkpointing = false;

  // When to log, evaluate and save.
  std::string logging_strategy = "steps";
  double logging_steps = 500;  ///< updates; below 1: that part of all updates. So are the next two
  bool logging_first_step = false;
  bool logging_nan_inf_filter = false;  ///< true: losses that are no numbers are left out of logged means
  bool stop_on_nan = true;              ///< end with an error once weights are no numbers
  std::string eval_strategy = "no";
  std::optional<double> eval_steps;  ///< nothing: logging_steps
  double eval_delay = 0;             ///< epochs or steps, as eval_strategy, before the first evaluation
  bool eval_on_start = false;
  bool prediction_loss_only = false;
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<std::int64_t> save_total_limit;
  bool save_only_model = false;
  bool enable_jit_checkpoint = true;  ///< SIGTERM: finish the update, save, end

  // The best model.
  bool load_best_model_at_end = false;
  std::optional<std::string> metric_for_best_model;  ///< nothing: loss
  std::optional<bool> greater_is_better;             ///< nothing: unless the metric ends in "loss"

  // Randomness and data.
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;  ///< of the order of samples; nothing: seed
  std::int64_t dataloader_num_workers = 0;
  std::optional<std::int64_t> dataloader_prefetch_factor;
  bool dataloader_drop_last = false;
  bool group_by_length = false;

  // Devices and parallelism.
  bool use_cpu = false;                ///< stay on the CPU where there is CUDA
  std::string parallel_mode = "auto";  ///< single, dp, ddp; auto: ddp under a launcher, dp with several replicas
  std::int64_t replicas = 0;           ///< of dp; 0: one for each device
  std::optional<std::string> ddp_backend;
  std::optional<double> ddp_bucket_cap_mb;
  std::optional<bool> ddp_broadcast_buffers;
  std::optional<double> ddp_timeout;  ///< seconds; nothing: as init_process_group
  bool fuse = true;                   ///< ddp: ranks share the update where they can

  // What is shown.
  std::optional<bool> disable_tqdm;  ///< nothing: no progress bar where stderr is no terminal
  std::vector<std::string> report_to = {"none"};
  std::optional<std::string> logging_dir;  ///< of TensorBoard's files; nothing: runs/ in output_dir
};

/// Sets the argument `name` (or an alias of it, such as `evaluation_strategy`; hyphens are taken for underscores) to
/// a JSON value. null is `nothing`.
/// @param where  named in errors: a file, or "command line"
/// @throws UsageError  if there is no such argument (with the nearest name), Hugging Face's is not supported here, or
/// the value is of another type or out of range
void set_training_argument(TrainingArguments& arguments, const std::string& name, const nlohmann::json& value,
                           const std::string& where);
/// The same from a text, as a flag has it.
void set_training_argument(TrainingArguments& arguments, const std::string& name, const std::string& text,
                           const std::string& where);

/// Sets all arguments that the JSON object in the file `path` names.
/// @throws UsageError  as set_training_argument, with the file; Error  if it cannot be read
void read_training_arguments(TrainingArguments& arguments, const std::string& path);
/// All arguments, sorted by name.
nlohmann::json to_json(const TrainingArguments& arguments);

/// Checks each value's range, and what only some arguments together make wrong.
/// @throws UsageError  that names the flag and the fix
void check_training_arguments(const TrainingArguments& arguments, const std::string& where = "TrainingArguments");

/// What help texts and documentation say of one argument.
struct TrainingArgumentInfo {
  std::string name;
  std::string value;          ///< kind: "NUMBER", "true|false", the choices
  std::string default_value;  ///< as JSON
  std::string help;
  bool is_switch = false;  ///< a flag without a value means true
  std::vector<std::string> aliases;
};
/// Of every argument, in the order of the struct.
std::vector<TrainingArgumentInfo> training_argument_infos();

}  // namespace lockstep
