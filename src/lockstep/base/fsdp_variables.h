#pragma once

#include <array>
#include <utility>

namespace lockstep {

/// By which variable accelerate's launcher hands on an option of FSDP, and the option's key in the section fsdp_config
/// of its configuration file and in the Trainer's argument, without the prefix "fsdp_".
constexpr std::array<std::pair<const char*, const char*>, 16> kFsdpVariables{{
    {"FSDP_VERSION", "version"},
    {"FSDP_SHARDING_STRATEGY", "sharding_strategy"},
    {"FSDP_RESHARD_AFTER_FORWARD", "reshard_after_forward"},
    {"FSDP_OFFLOAD_PARAMS", "offload_params"},
    {"FSDP_MIN_NUM_PARAMS", "min_num_params"},
    {"FSDP_AUTO_WRAP_POLICY", "auto_wrap_policy"},
    {"FSDP_TRANSFORMER_CLS_TO_WRAP", "transformer_layer_cls_to_wrap"},
    {"FSDP_BACKWARD_PREFETCH", "backward_prefetch"},
    {"FSDP_STATE_DICT_TYPE", "state_dict_type"},
    {"FSDP_FORWARD_PREFETCH", "forward_prefetch"},
    {"FSDP_USE_ORIG_PARAMS", "use_orig_params"},
    {"FSDP_CPU_RAM_EFFICIENT_LOADING", "cpu_ram_efficient_loading"},
    {"FSDP_SYNC_MODULE_STATES", "sync_module_states"},
    {"FSDP_ACTIVATION_CHECKPOINTING", "activation_checkpointing"},
    {"FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "activation_checkpointing_offload"},
    {"FSDP_IGNORED_MODULES", "ignored_modules"},
}};

}  // namespace lockstep
