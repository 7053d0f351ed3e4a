#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Accelerate's configuration file, as far as it concerns data parallelism: same keys, same defaults, so that files go
/// from one to the other. What Lockstep cannot do is an error where a file asks for it, never ignored.
struct AccelerateConfig {
  std::string compute_environment = "LOCAL_MACHINE";
  bool debug = false;
  std::string distributed_type = "NO";  ///< NO, MULTI_CPU or MULTI_GPU
  std::string downcast_bf16 = "no";     ///< of TPUs; always "no"
  bool enable_cpu_affinity = false;
  std::optional<std::string> gpu_ids;  ///< "all" or "0,1"
  int machine_rank = 0;
  std::optional<std::string> main_process_ip;
  std::optional<int> main_process_port;
  std::string main_training_function = "main";
  std::string mixed_precision = "no";  ///< no, fp16 or bf16
  int num_machines = 1;
  int num_processes = 1;  ///< on all machines together; -1: to be given on the command line
  std::string rdzv_backend = "static";
  bool same_network = true;
  bool use_cpu = false;
};

/// Reads YAML, or JSON where the name ends in .json. `mixed_precision: no` and `gpu_ids: 0`, which YAML takes for a
/// switch and a number, are understood.
/// @throws Error  with file and line: not readable, no YAML, an unknown key (with a suggestion), a value that does not
///                fit, or something that Lockstep has not (DeepSpeed, FSDP, Megatron-LM, dynamo, TPUs)
AccelerateConfig read_accelerate_config(const std::string& path);

/// The file's text: keys in alphabetical order, those without a value left out, as Accelerate writes it.
std::string accelerate_config_text(const AccelerateConfig& config, bool as_json);

/// Writes it, with the folders that it needs.
/// @throws Error  with path and cause
void write_accelerate_config(const AccelerateConfig& config, const std::string& path);

}  // namespace lockstep
