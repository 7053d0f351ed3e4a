#pragma once

namespace lockstep {

// Arguments of a training that its ranks must have in common, by name.

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
                                                   "logging_strategy",
                                                   "logging_steps",
                                                   "logging_first_step",
                                                   "load_best_model_at_end",
                                                   "metric_for_best_model",
                                                   "greater_is_better",
                                                   "fuse",
                                                   "fsdp",
                                                   "ddp_find_unused_parameters",
                                                   "ddp_bucket_cap_mb",
                                                   "ddp_broadcast_buffers",
                                                   "ddp_static_graph",
                                                   "average_tokens_across_devices",
                                                   "stop_on_nan"};

}  // namespace lockstep
