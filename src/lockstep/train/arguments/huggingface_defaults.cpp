#include "lockstep/train/arguments/huggingface_defaults.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/text/flag_name.h"
#include "lockstep/train/arguments/training_argument_table.h"

namespace lockstep {
namespace {

// What transformers 5.23 writes, in its order.
const nlohmann::json& huggingface_defaults() {
  static const nlohmann::json defaults = nlohmann::json::parse(R"({
    "optim_args": null, "optim_target_modules": null, "average_tokens_across_devices": true,
    "bf16_full_eval": false, "fp16_full_eval": false, "tf32": null,
    "activation_checkpointing": false, "activation_checkpointing_kwargs": null, "gradient_checkpointing_kwargs": null,
    "torch_compile": false, "torch_compile_backend": null, "torch_compile_mode": null,
    "use_liger_kernel": false, "liger_kernel_config": null, "use_cache": false, "neftune_noise_alpha": null,
    "torch_empty_cache_steps": null, "auto_find_batch_size": false,
    "log_on_each_node": true, "include_num_input_tokens_seen": "no", "log_level": "passive",
    "log_level_replica": "warning", "run_name": null, "project": "huggingface",
    "trackio_space_id": null, "trackio_bucket_id": null, "trackio_static_space_id": null,
    "eval_do_concat_batches": true, "eval_use_gather_object": false, "eval_accumulation_steps": null,
    "include_for_metrics": [], "batch_eval_metrics": false, "save_on_each_node": false,
    "push_to_hub": false, "hub_token": "<HUB_TOKEN>", "hub_private_repo": null, "hub_model_id": null,
    "hub_strategy": "every_save", "hub_always_push": false, "hub_revision": null,
    "ignore_data_skip": false, "restore_callback_states_from_checkpoint": false, "full_determinism": false,
    "accelerator_config": {"split_batches": false, "dispatch_batches": null, "even_batches": true,
                           "use_seedable_sampler": true, "non_blocking": false, "gradient_accumulation_kwargs": null},
    "parallelism_config": null, "dataloader_pin_memory": true, "dataloader_persistent_workers": false,
    "dataloader_multiprocessing_context": null, "dataloader_in_order": true, "remove_unused_columns": true,
    "label_names": null, "train_sampling_strategy": "random", "length_column_name": "length",
    "ddp_find_unused_parameters": null, "ddp_static_graph": null, "fsdp": null, "fsdp_config": null,
    "deepspeed": null, "debug": [], "skip_memory_metrics": true,
    "do_train": false, "do_eval": false, "do_predict": false, "local_rank": -1
  })");
  return defaults;
}

// An argument of this Trainer, and not another name of one.
bool is_own_name(const std::string& name) {
  const TrainingArgumentRow* row = find_training_argument(name);
  return row != nullptr && row->name == name;
}

bool is_huggingface_default(const std::string& name, const nlohmann::json& value) {
  const auto found = huggingface_defaults().find(name);
  if (found == huggingface_defaults().end() || is_own_name(name)) return false;
  // Memory is not pinned here; Hugging Face turns it off by itself on the CPU.
  return value == *found || (name == "dataloader_pin_memory" && value == false);
}

}  // namespace

void drop_huggingface_defaults(nlohmann::json& document) {
  std::vector<std::string> dropped;
  for (const auto& item : document.items()) {
    if (is_huggingface_default(with_underscores(item.key()), item.value())) dropped.push_back(item.key());
  }
  for (const std::string& name : dropped) document.erase(name);
  // transformers 5.24 writes both names, and the older one without a value.
  const auto older = document.find("gradient_checkpointing");
  if (older == document.end()) return;
  if (older->is_null() || (document.contains("activation_checkpointing") && *older == false)) document.erase(older);
}

}  // namespace lockstep
