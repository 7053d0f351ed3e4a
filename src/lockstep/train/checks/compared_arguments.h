#pragma once

namespace lockstep {

// Arguments of a training by name: those that its ranks must have in common, and those that may differ. A new one
// belongs into one of these lists.

/// They decide which samples an update takes, and what it makes of them.
inline constexpr const char* kSharedArguments[] = {"per_device_train_batch_size",
                                                   "gradient_accumulation_steps",
                                                   "num_train_epochs",
                                                   "max_steps",
                                                   "optim",
                                                   "learning_rate",
                                                   "weight_decay",
                                                   "adam_beta1",
                                                   "adam_beta2",
                                                   "adam_epsilon",
                                                   "max_grad_norm",
                                                   "lr_scheduler_type",
                                                   "lr_scheduler_kwargs",
                                                   "warmup_steps",
                                                   "warmup_ratio",
                                                   "bf16",
                                                   "fp16",
                                                   "label_smoothing_factor",
                                                   "seed",
                                                   "data_seed",
                                                   "dataloader_drop_last",
                                                   "group_by_length",
                                                   "virtual_shards"};

/// They decide when ranks meet, and what a checkpoint and a log hold. A training that continues may have others.
inline constexpr const char* kArgumentsOfLoop[] = {"per_device_eval_batch_size",
                                                   "eval_strategy",
                                                   "eval_steps",
                                                   "eval_delay",
                                                   "eval_on_start",
                                                   "prediction_loss_only",
                                                   "save_strategy",
                                                   "save_steps",
                                                   "save_only_model",
                                                   "save_total_limit",
                                                   "enable_jit_checkpoint",
                                                   "logging_strategy",
                                                   "logging_steps",
                                                   "logging_first_step",
                                                   "logging_nan_inf_filter",
                                                   "load_best_model_at_end",
                                                   "metric_for_best_model",
                                                   "greater_is_better",
                                                   "fuse",
                                                   "fsdp",
                                                   "fsdp_config",
                                                   "survive_lost_ranks",
                                                   "ddp_bucket_cap_mb",
                                                   "ddp_broadcast_buffers",
                                                   "stop_on_nan"};

/// They decide where ranks start. A process that joins later starts where the others are.
inline constexpr const char* kArgumentsOfStart[] = {"resume_from_checkpoint", "allow_world_size_change"};

/// A rank may have its own: what it computes stays equal, or what is compared elsewhere (engines when a group forms),
/// or what the first rank alone does, as programs turn it off on the others.
inline constexpr const char* kOwnArguments[] = {"output_dir",
                                                "gradient_checkpointing",
                                                "save_in_background",
                                                "dataloader_num_workers",
                                                "dataloader_prefetch_factor",
                                                "use_cpu",
                                                "parallel_mode",
                                                "replicas",
                                                "ddp_backend",
                                                "ddp_timeout",
                                                "disable_tqdm",
                                                "report_to",
                                                "logging_dir"};

}  // namespace lockstep
