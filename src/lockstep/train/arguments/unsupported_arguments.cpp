// Hugging Face's arguments that this Trainer has not, and why.
#include <map>

#include "lockstep/train/arguments/training_argument_table.h"

namespace lockstep {
namespace {

const std::map<std::string, std::string>& unsupported_reasons() {
  static const char* const kEvaluation = "evaluation computes in the precision of the training";
  static const char* const kProducts = "LibTorch decides it: at::globalContext().setAllowTF32CuBLAS";
  static const char* const kAlways = "it always holds here";
  static const char* const kService = "it is of another library or service";
  static const char* const kHub = "nothing is uploaded: output_dir is the folder that one would upload";
  static const char* const kCompiler = "it compiles Python, and the models here are C++";
  static const char* const kLiger = "its kernels are Triton programs for GPUs";
  static const char* const kSharded =
      "Lockstep shards gradients with fsdp shard_grad_op, which is DeepSpeed's stage 2, and also weights with "
      "full_shard, its stage 3";
  static const std::map<std::string, std::string> reasons{
      {"fp16_full_eval", kEvaluation},
      {"bf16_full_eval", kEvaluation},
      {"tf32", kProducts},
      {"half_precision_backend", "it is LibTorch's autocast"},
      {"average_tokens_across_devices", kAlways},
      {"ddp_find_unused_parameters", kAlways},
      {"restore_callback_states_from_checkpoint", kAlways},
      {"eval_do_concat_batches", kAlways},
      {"dataloader_persistent_workers", kAlways},
      {"dataloader_pin_memory", "set pin_memory of the loader in the program"},
      {"ignore_data_skip", "skipping costs nothing here"},
      {"auto_find_batch_size", "give the batch size"},
      {"torch_empty_cache_steps", "PYTORCH_CUDA_ALLOC_CONF tells the allocator when to give memory back"},
      {"eval_accumulation_steps", "outputs are on the CPU after each batch"},
      {"batch_eval_metrics", "metrics see all outputs at once"},
      {"include_for_metrics", "metrics see outputs and labels"},
      {"eval_use_gather_object", "outputs are tensors"},
      {"save_on_each_node", "all ranks write to one folder"},
      {"full_determinism", "the same seed, ranks and threads give the same bits"},
      {"length_column_name", "lengths are counted from the tokens"},
      {"label_names", "the labels are the tensor \"labels\""},
      {"log_level", "LOCKSTEP_LOG_LEVEL sets it"},
      {"log_level_replica", "ranks but the first are quiet"},
      {"log_on_each_node", "ranks but the first are quiet"},
      {"skip_memory_metrics", "memory is in metrics.jsonl"},
      {"local_rank", "the launcher's environment sets it"},
      {"overwrite_output_dir", "existing checkpoints stay until save_total_limit removes them"},
      {"remove_unused_columns", "a model ignores tensors that it does not know"},
      {"deepspeed", kSharded},
      {"push_to_hub", kHub},
      {"hub_model_id", kHub},
      {"hub_token", kHub},
      {"hub_private_repo", kHub},
      {"hub_strategy", kHub},
      {"hub_always_push", kHub},
      {"hub_revision", kHub},
      {"run_name", "output_dir distinguishes runs, also in TensorBoard"},
      {"project", kService},
      {"trackio_space_id", kService},
      {"trackio_bucket_id", kService},
      {"trackio_static_space_id", kService},
      {"torch_compile", kCompiler},
      {"torch_compile_backend", kCompiler},
      {"torch_compile_mode", kCompiler},
      {"use_liger_kernel", kLiger},
      {"liger_kernel_config", kLiger},
      {"optim_args", "give the optimizer's numbers as arguments of their own, such as adam_beta1 and weight_decay"},
      {"optim_target_modules", "it is for optimizers that Lockstep does not have: GaLore, APOLLO, LOMO"},
      {"activation_checkpointing_kwargs", "gradient_checkpointing has only one form here"},
      {"gradient_checkpointing_kwargs", "gradient_checkpointing has only one form here"},
      {"use_cache", "training caches no keys and values of earlier tokens"},
      {"neftune_noise_alpha", "no noise is added to embeddings"},
      {"include_num_input_tokens_seen", "tokens are not counted in the logs"},
      {"parallelism_config", "Lockstep splits only the data, among all ranks"},
      {"debug", "a loss that is NaN or infinite is reported with its rank without it, and there are no TPUs"},
      {"dataloader_multiprocessing_context", "workers are threads"},
      {"dataloader_in_order", kAlways},
      {"ddp_static_graph", "parameters without a gradient are found without it"},
      {"accelerator_config", "its split_batches, dispatch_batches and even_batches are not here"},
      {"do_train", "the subcommand decides it: lockstep train"},
      {"do_eval", "the subcommand decides it: lockstep evaluate"},
      {"do_predict", "the subcommand decides it: lockstep predict"},
  };
  return reasons;
}

}  // namespace

std::string unsupported_training_argument(const std::string& name) {
  const auto found = unsupported_reasons().find(name);
  return found == unsupported_reasons().end() ? "" : found->second;
}

std::string fix_of_unsupported_argument(const std::string& name) {
  static const std::map<std::string, std::string> fixes{
      {"accelerator_config",
       "leave it out; in place of split_batches, divide --per-device-train-batch-size by the number of ranks"},
      {"deepspeed", "leave it out, and give --fsdp shard_grad_op or --fsdp full_shard"},
      {"optim_args", "leave it out, and give its numbers: --adam-beta1, --adam-beta2, --adam-epsilon, --weight-decay"},
      {"auto_find_batch_size", "leave it out, and give --per-device-train-batch-size"},
      {"activation_checkpointing_kwargs", "leave it out, and give --gradient-checkpointing true"},
      {"gradient_checkpointing_kwargs", "leave it out, and give --gradient-checkpointing true"},
      {"length_column_name", "leave it out, and give --group-by-length true"},
      {"log_level", "leave it out, and set LOCKSTEP_LOG_LEVEL"},
      {"torch_empty_cache_steps", "leave it out, and set PYTORCH_CUDA_ALLOC_CONF"},
      {"run_name", "leave it out, and give each run an --output-dir of its own"},
      {"do_eval", "leave it out, and start lockstep evaluate; a training evaluates with --validation-file"},
      {"do_predict", "leave it out, and start lockstep predict"},
      {"remove_unused_columns", "leave it out; --text-column and --label-column name the columns that are read"},
      {"label_names", "leave it out, and give --label-column"},
      {"bf16_full_eval", "leave it out; lockstep evaluate --bf16 true computes in bf16"},
  };
  const auto found = fixes.find(name);
  return found == fixes.end() ? "leave it out" : found->second;
}

std::vector<std::string> unsupported_training_arguments() {
  std::vector<std::string> names;
  for (const auto& [name, reason] : unsupported_reasons()) names.push_back(name);
  return names;
}

}  // namespace lockstep
