#include "lockstep/train/arguments/fsdp_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/train/arguments/fsdp_environment.h"
#include "lockstep/train/arguments/fsdp_strategy.h"

namespace lockstep {
namespace {

using FsdpJson = nlohmann::json;

const char* const kNoOffload = "weights and gradients stay on the model's device and are not moved to the CPU";
const char* const kNoUnits =
    "it is for layers that are wrapped one by one; with shard_grad_op gradients are sent in buckets, whose size "
    "ddp_bucket_cap_mb sets";
const char* const kNoGather = "it is for weights that are gathered, but with shard_grad_op every host has all weights";

[[noreturn]] void refuse_fsdp(const std::string& what, const std::string& why, const std::string& where,
                              const std::string& fix = "leave it out") {
  throw UsageError(what + ": " + why, where, fix);
}

// Hugging Face takes a text of several words, or a list of them.
std::vector<std::string> words_of(const std::vector<std::string>& items) {
  std::vector<std::string> words;
  for (const std::string& item : items) {
    std::string text = lower_case(item);
    std::replace(text.begin(), text.end(), ',', ' ');
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
  }
  return words;
}

// The ways to shard that `fsdp` asks for. As in Hugging Face's Trainer, "auto_wrap" adds nothing to another word, and
// alone it asks for FSDP with its default.
std::vector<std::string> ways_of(std::vector<std::string> words) {
  if (words.empty()) return words;
  words.erase(std::remove(words.begin(), words.end(), "auto_wrap"), words.end());
  return words.empty() ? std::vector<std::string>{"true"} : words;
}

// Whether a value asks for nothing: null, false, 0, empty, or what FSDP calls so.
bool asks_for_nothing(const FsdpJson& value) {
  if (value.is_null() || value == false || value == 0) return true;
  if (value.is_string()) {
    const std::string text = lower_case(value.get<std::string>());
    return text.empty() || text == "false" || text == "none" || text == "no_prefetch" || text == "no_wrap";
  }
  return value.is_array() && value.empty();
}

bool is_true(const FsdpJson& value) {
  return value == true || (value.is_string() && lower_case(value.get<std::string>()) == "true");
}

// Options of FSDP that change nothing here, or that have another name; the others ask for what is not there.
const std::map<std::string, std::string>& refused_options() {
  static const std::map<std::string, std::string> reasons{
      {"min_num_params", kNoUnits},
      {"transformer_layer_cls_to_wrap", kNoUnits},
      {"auto_wrap_policy", kNoUnits},
      {"ignored_modules", kNoUnits},
      {"backward_prefetch", kNoGather},
      {"forward_prefetch", kNoGather},
      {"limit_all_gathers", kNoGather},
      {"cpu_ram_efficient_loading", "every rank loads the model itself"},
      {"offload_params", kNoOffload},
      {"cpu_offload", kNoOffload},
      {"activation_checkpointing", "give --gradient-checkpointing true in its place"},
      {"mixed_precision_policy", "give --bf16 true or --fp16 true in its place"},
      {"xla", "it is for TPUs"},
      {"xla_fsdp_v2", "it is for TPUs"},
      {"xla_fsdp_grad_ckpt", "it is for TPUs"},
      {"xla_fsdp_settings", "it is for TPUs"},
  };
  return reasons;
}

// Always so, or of a kind that makes no difference: replicas start equal, and parameters keep their names.
bool is_harmless(const std::string& name) {
  return name == "version" || name == "use_orig_params" || name == "sync_module_states";
}

bool is_sharded_state_dict(const std::string& key, const FsdpJson& value, const std::string& where) {
  const std::string type = value.is_string() ? lower_case(value.get<std::string>()) : value.dump();
  if (type == "sharded_state_dict") return true;
  if (type == "full_state_dict") return false;
  const bool is_local = type == "local_state_dict";
  refuse_fsdp(fmt::format("fsdp_config: {} {}", key, printable(type)),
              is_local ? "such files can only be read by the same number of ranks" : "it is not a type of state dict",
              where, "write FULL_STATE_DICT, for one file of weights, or SHARDED_STATE_DICT, for one of each rank");
}

std::vector<std::string> types_in(const FsdpJson& value, const std::string& key, const std::string& where) {
  std::vector<std::string> types;
  const auto refuse = [&] {
    refuse_fsdp("fsdp_config: " + key, "it must be a list of names", where, "write [\"BertLayer\"]");
  };
  if (value.is_array()) {
    for (const FsdpJson& type : value) {
      if (!type.is_string()) refuse();
      types.push_back(type.get<std::string>());
    }
    return types;
  }
  if (!value.is_string()) refuse();
  std::string text = value.get<std::string>();  // accelerate separates names by commas
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream in(text);
  for (std::string type; in >> type;) types.push_back(type);
  return types;
}

// Options of units and gathering, which have a meaning where weights are gathered. @return  false if it is another
bool read_unit_option(const std::string& key, const FsdpJson& value, Sharding& sharding, const std::string& where) {
  const std::string name = plain_fsdp_name(key);
  const std::string text = value.is_string() ? lower_case(value.get<std::string>()) : "";
  if (name == "transformer_layer_cls_to_wrap") {
    sharding.unit_types = types_in(value, key, where);
  } else if (name == "min_num_params") {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
      refuse_fsdp("fsdp_config: " + key, "it must be a number of elements", where);
    }
    sharding.unit_min_params = value.get<std::int64_t>();
  } else if (name == "backward_prefetch") {
    if (text == "backward_pre") return true;
    refuse_fsdp("fsdp_config: " + key, "the next layer is gathered while this one computes, as backward_pre says",
                where);
  } else if (name == "auto_wrap_policy") {
    return text == "transformer_based_wrap" || text == "size_based_wrap";  // by the two options above
  } else {
    // Always so: one layer ahead, and no more.
    return (name == "forward_prefetch" || name == "limit_all_gathers") && is_true(value);
  }
  return true;
}

void read_config(const FsdpJson& config, Sharding& sharding, const std::string& where) {
  if (!config.is_object()) return;
  for (const auto& [key, value] : config.items()) {
    const std::string name = plain_fsdp_name(key);
    if (name == "reshard_after_forward" || name == "sharding_strategy") continue;  // by fsdp_strategy_of
    if (is_harmless(name) || asks_for_nothing(value)) continue;
    if (name == "state_dict_type") {
      sharding.saves_shards = is_sharded_state_dict(key, value, where);
      continue;
    }
    if ((sharding.stage() == 3 || is_hybrid(sharding.sharding_strategy)) &&
        read_unit_option(key, value, sharding, where))
      continue;
    const auto reason = refused_options().find(name);
    if (reason != refused_options().end()) refuse_fsdp("fsdp_config: " + key, reason->second, where);
    refuse_fsdp("fsdp_config: " + printable(key), "FullyShardedDataParallel has no such option", where);
  }
}

[[noreturn]] void refuse_way(const std::string& word, const std::string& where) {
  const std::string fix = "write fsdp: shard_grad_op, full_shard or hybrid_shard, or leave it out";
  if (word == "offload") refuse_fsdp("fsdp: " + word, kNoOffload, where);
  refuse_fsdp(fmt::format("fsdp: there is no '{}'{}", printable(word),
                          did_you_mean(word, {"full_shard", "shard_grad_op", "hybrid_shard", "no_shard", "auto_wrap"})),
              "the word does not name anything that FSDP can shard", where, fix);
}

// A host's ranks have one copy of the weights, which takes no more memory than shards on each of them, so the two
// hybrid strategies leave what ZeRO's stage 2 leaves: replicas on hosts, which share out the rest.
void take_way(const std::string& word, Sharding& sharding, const std::string& where) {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::FullShard, ShardingStrategy::ShardGradOp, ShardingStrategy::HybridShard,
        ShardingStrategy::HybridShardZero2, ShardingStrategy::NoShard}) {
    if (word != to_string(strategy)) continue;
    if (strategy != ShardingStrategy::NoShard) sharding.sharding_strategy = strategy;
    return;
  }
  refuse_way(word, where);
}

// Hugging Face's Trainer passes over a strategy without `fsdp`, and would train with more memory than was asked for.
void refuse_without_fsdp(const FsdpStrategy& strategy, const std::string& where) {
  const bool has_word = strategy.word && *strategy.word != "no_shard";
  if (!has_word && !strategy.reshards) return;
  refuse_fsdp(has_word ? fmt::format("fsdp_config: {} {}", strategy.key, *strategy.word)
                       : fmt::format("fsdp_config: reshard_after_forward {}", *strategy.reshards),
              "nothing is sharded without fsdp", where,
              "write fsdp: true for what fsdp_config says, or fsdp: false for a training without it");
}

Sharding asked_sharding(const TrainingArguments& arguments, const std::string& where) {
  Sharding sharding;
  const FsdpStrategy strategy = fsdp_strategy_of(arguments.fsdp_config, where);
  const std::vector<std::string> ways = ways_of(words_of(arguments.fsdp.value_or(std::vector<std::string>())));
  if (ways.empty()) refuse_without_fsdp(strategy, where);
  std::string taken;
  for (const std::string& given : ways) {
    if (given == "false") continue;
    const bool is_open = given == "true";
    if (!is_open && strategy.word && *strategy.word != given) {
      refuse_fsdp(fmt::format("fsdp: {} and fsdp_config: {} {}", printable(given), strategy.key, *strategy.word),
                  "they are two strategies", where);
    }
    const std::string word =
        is_open ? strategy.word.value_or(strategy.reshards == false ? "shard_grad_op" : "full_shard") : given;
    take_way(word, sharding, where);
    if (!taken.empty() && taken != word) {
      refuse_fsdp(fmt::format("fsdp: {} and {}", taken, printable(word)), "they are two strategies", where);
    }
    taken = word;
  }
  sharding.reshard_after_forward = strategy.reshards.value_or(true);
  read_config(arguments.fsdp_config, sharding, where);
  if (sharding.stage() > 1 && !arguments.fuse) {
    throw UsageError(
        fmt::format("fsdp {} cannot be combined with fuse false: the fused update shards gradients and weights",
                    fsdp_name(sharding)),
        where, "leave one of them out");
  }
  return sharding;
}

}  // namespace

const char* fsdp_name(const Sharding& sharding) {
  return is_hybrid(sharding.sharding_strategy) ? "hybrid_shard" : to_string(sharding.sharding_strategy);
}

Sharding sharding_of(const TrainingArguments& arguments, const std::string& where) {
  if (arguments.fsdp || !arguments.fsdp_config.is_null()) return asked_sharding(arguments, where);
  const auto config = fsdp_config_of_environment();
  if (!config) return {};
  TrainingArguments asked = arguments;
  asked.fsdp = std::vector<std::string>{"true"};
  asked.fsdp_config = *config;
  return asked_sharding(asked, where + ", variables of ACCELERATE_USE_FSDP");
}

bool may_shard_weights(const TrainingArguments& arguments, int world_size) {
  return world_size > 1 && sharding_of(arguments, "training arguments").stage() == 3;
}

void check_sharding(const TrainingArguments& arguments, const std::string& where) {
  const Sharding sharding = sharding_of(arguments, where);
  const int stage = sharding.stage();
  Features features;
  if (stage > 1)
    features.add(stage == 2 ? Feature::Stage2 : Feature::Stage3, std::string("fsdp ") + fsdp_name(sharding));
  if (arguments.virtual_shards > 0) {
    features.add(Feature::VirtualShards, fmt::format("virtual_shards {}", arguments.virtual_shards));
  }
  // An optimizer that is not fused would share nothing out.
  features.require_fused<UsageError>(where);
  if (stage > 1 && (arguments.parallel_mode == "single" || arguments.parallel_mode == "dp")) {
    throw UsageError(
        fmt::format("fsdp {} cannot be combined with parallel_mode {}", fsdp_name(sharding), arguments.parallel_mode),
        where, "leave one of them out: gradients and weights are sharded among ranks");
  }
}

}  // namespace lockstep
