#include "tools/accelerate/fsdp_questions.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep {
namespace {

// Which layers are units, whose weights are gathered one after the other.
void ask_wrapping(Questions& ask, std::map<std::string, std::string>& fsdp) {
  const std::vector<std::string> policies{"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"};
  const std::string policy = policies[ask.menu("What should be your auto wrap policy?", policies)];
  fsdp["auto_wrap_policy"] = policy;
  if (policy == "TRANSFORMER_BASED_WRAP") {
    if (ask.yes_no("Do you want to use the model's `_no_split_modules` to wrap. Only applicable for Transformers "
                   "[yes/NO]: ")) {
      return;
    }
    fsdp["transformer_layer_cls_to_wrap"] = ask.required(
        "Specify the comma-separated list of transformer layer class names (case-sensitive) to wrap ,e.g, "
        ":`BertLayer`, "
        "`GPT2Block` ...? : ");
  } else if (policy == "SIZE_BASED_WRAP") {
    fsdp["min_num_params"] = std::to_string(ask.whole(
        "What should be your FSDP's minimum number of parameters for Default Auto Wrapping Policy? [1e8]: ", 0,
        999'999'999, 100'000'000));
  }
}

// Version 1 alone asks for these. Lockstep gathers one layer ahead, and parameters keep their names.
void ask_of_version_1(Questions& ask, std::map<std::string, std::string>& fsdp) {
  const std::vector<std::string> prefetches{"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"};
  while (ask.menu("What should be your FSDP's backward prefetch policy?", prefetches) != 0) {
    ask.say("Lockstep gathers the next layer while this one computes. Please choose BACKWARD_PRE.");
  }
  fsdp["backward_prefetch"] = prefetches.front();
}

void ask_parallelism(Questions& ask, AccelerateConfig& config) {
  if (!ask.yes_no("Do you want to use the parallelism config? [yes/NO]: ")) return;
  ReplicasAndShards sizes;
  sizes.replicas = ask.whole("What is the data parallelism replicate size? [1]: ", 1, 65536, 1);
  sizes.shards = ask.whole("What is the FSDP shard size? [1]: ", 1, 65536, 1);
  const auto only_one = [&](const char* question) {
    while (ask.whole(question, 1, 65536, 1) != 1) ask.say("Lockstep splits only the data. Please enter 1.");
  };
  only_one("What is the tensor parallelism size? [1]: ");
  only_one("What is the context parallelism size? [1]: ");
  config.parallelism = sizes;
}

// Without FULL_SHARD or a hybrid every host keeps all weights, so that no layer is gathered. A training would refuse
// options that say how.
void drop_what_gathers(Questions& ask, std::map<std::string, std::string>& fsdp) {
  const std::string how = fsdp.at("reshard_after_forward");
  if (how == "true" || how == "FULL_SHARD" || how.rfind("HYBRID", 0) == 0) return;
  ask.say(
      "Then no weights are gathered, so how layers are wrapped and fetched makes no difference: NO_WRAP is written.");
  fsdp["auto_wrap_policy"] = "NO_WRAP";
  fsdp.erase("transformer_layer_cls_to_wrap");
  fsdp.erase("min_num_params");
  if (fsdp.count("backward_prefetch") > 0) fsdp["backward_prefetch"] = "NO_PREFETCH";
  if (fsdp.count("forward_prefetch") > 0) fsdp["forward_prefetch"] = "false";
}

// Files of a rank that fit one number of ranks alone are not written.
std::string state_dict_type(Questions& ask, bool is_first) {
  const std::vector<std::string> types =
      is_first ? std::vector<std::string>{"FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"}
               : std::vector<std::string>{"SHARDED_STATE_DICT", "FULL_STATE_DICT"};
  for (;;) {
    const std::string type = types[ask.menu("What should be your FSDP's state dict type?", types)];
    if (type != "LOCAL_STATE_DICT") return type;
    ask.say(
        "Such files can only be read by the same number of ranks. Please choose SHARDED_STATE_DICT or "
        "FULL_STATE_DICT.");
  }
}

}  // namespace

void ask_fsdp(Questions& ask, AccelerateConfig& config) {
  config.distributed_type = "FSDP";
  std::map<std::string, std::string>& fsdp = config.fsdp_config;
  const auto text_of = [](bool value) { return value ? "true" : "false"; };
  const bool is_first = ask.menu("What should be your FSDP version? [2]: ", {"1", "2"}, 1) == 0;
  fsdp["version"] = is_first ? "1" : "2";
  if (is_first) {
    const std::vector<std::string> strategies{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD",
                                              "HYBRID_SHARD_ZERO2"};
    fsdp["reshard_after_forward"] = strategies[ask.menu("What should be your sharding strategy?", strategies)];
  } else {
    fsdp["reshard_after_forward"] =
        text_of(ask.yes_no("Do you want to enable resharding after forward? [YES/no]: ", true));
  }
  ask.must_be_no("Do you want to offload parameters and gradients to CPU? [yes/NO]: ",
                 "In Lockstep weights and gradients stay on the model's device. Please enter no.");
  fsdp["offload_params"] = "false";
  ask_wrapping(ask, fsdp);
  if (is_first) ask_of_version_1(ask, fsdp);
  fsdp["state_dict_type"] = state_dict_type(ask, is_first);
  if (is_first) {
    fsdp["forward_prefetch"] = text_of(ask.yes_no("Do you want to enable FSDP's forward prefetch policy? [yes/NO]: "));
    fsdp["use_orig_params"] =
        text_of(ask.yes_no("Do you want to enable FSDP's `use_orig_params` feature? [YES/no]: ", true));
  }
  ask.must_be_no(
      "Do you want to enable CPU RAM efficient model loading? Only applicable for Transformers models. "
      "[yes/NO]: ",
      "In Lockstep every rank loads the model itself. Please enter no.");
  fsdp["cpu_ram_efficient_loading"] = "false";
  if (is_first) {
    fsdp["sync_module_states"] = text_of(
        ask.yes_no("Do you want each individually wrapped FSDP unit to broadcast module parameters from rank 0 at the "
                   "start? [YES/no]: ",
                   true));
  }
  ask.must_be_no("Do you want to enable FSDP activation checkpointing? [yes/NO]: ",
                 "Here it is a flag of the training, --gradient-checkpointing. Please enter no.");
  fsdp["activation_checkpointing"] = "false";
  drop_what_gathers(ask, fsdp);
  if (!is_first) ask_parallelism(ask, config);
}

}  // namespace lockstep
