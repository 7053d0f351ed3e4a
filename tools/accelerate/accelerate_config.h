#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

namespace lockstep {

/// FSDP2's mesh: replicas of the weights, each cut over so many processes.
struct ReplicasAndShards {
  int replicas = 1;
  int shards = 1;
};

/// The data-parallel part of Accelerate's configuration file, with Accelerate's keys and defaults, so that both
/// programs can read one file. A file that asks for something that Lockstep cannot do is an error; nothing is ignored.
struct AccelerateConfig {
  std::string compute_environment = "LOCAL_MACHINE";
  bool debug = false;
  std::string distributed_type = "NO";  ///< NO, MULTI_CPU, MULTI_GPU or FSDP
  std::string downcast_bf16 = "no";     ///< for TPUs; always "no"
  bool enable_cpu_affinity = false;
  std::map<std::string, std::string> fsdp_config;  ///< by key without "fsdp_", as it is written
  std::optional<std::string> gpu_ids;              ///< "all" or "0,1"
  int machine_rank = 0;
  std::optional<std::string> main_process_ip;
  std::optional<int> main_process_port;
  std::string main_training_function = "main";
  std::string mixed_precision = "no";  ///< no, fp16 or bf16
  int num_machines = 1;
  int num_processes = 1;                         ///< on all machines together; -1: must be given on the command line
  std::optional<ReplicasAndShards> parallelism;  ///< parallelism_config
  std::string rdzv_backend = "static";
  bool same_network = true;
  bool use_cpu = false;
  std::set<std::string> given;  ///< the keys that have a value in the file that was read; the others have defaults
};

/// Reads YAML, or JSON if the name ends in .json. Understands `mixed_precision: no` and `gpu_ids: 0`, although YAML
/// reads these values as a switch and a number.
/// @throws Error  with file and line, if the file cannot be read, is not YAML, has an unknown key (with a suggestion)
/// or an invalid value, or asks for something that Lockstep does not have (DeepSpeed, Megatron-LM, dynamo, TPUs)
AccelerateConfig read_accelerate_config(const std::string& path);

/// The file's text as Accelerate writes it: keys in alphabetical order, keys without a value left out.
std::string accelerate_config_text(const AccelerateConfig& config, bool as_json);

/// Writes the file, and creates its folders.
/// @throws Error  with path and cause
void write_accelerate_config(const AccelerateConfig& config, const std::string& path);

}  // namespace lockstep
