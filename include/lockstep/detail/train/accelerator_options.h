#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/train/fsdp_plugin.h"
#include "lockstep/detail/train/project_configuration.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {

/// The arguments of Accelerate's Accelerator that concern data parallelism, under their names.
struct AcceleratorOptions {
  std::string mixed_precision;                   ///< no, bf16, fp16; empty: ACCELERATE_MIXED_PRECISION, else no
  std::int64_t gradient_accumulation_steps = 0;  ///< 0: ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1
  bool cpu = false;                    ///< stay on the CPU even if CUDA exists; ACCELERATE_USE_CPU=true does the same
  bool device_placement = true;        ///< `prepare` moves modules to `device()`, and prepared loaders their batches
  bool split_batches = false;          ///< a loader's batch size is the total of all ranks
  bool even_batches = true;            ///< ranks get equal numbers of batches, by repeating samples
  bool sync_with_dataloader = true;    ///< GradientAccumulationPlugin: an accumulation window ends with its loader
  DistributedDataParallelOptions ddp;  ///< DistributedDataParallelKwargs
  /// Not set: fsdp_plugin_of_environment().
  std::optional<FullyShardedDataParallelPlugin> fsdp_plugin;
  GradScaler::Options grad_scaler;    ///< GradScalerKwargs, for fp16
  std::vector<std::string> log_with;  ///< trackers: tensorboard, json, all
  ProjectConfiguration project_config;
};

struct SaveStateOptions {
  /// Copy the present state and return; another thread writes it while the loop continues. The next save, load_state
  /// and end_training wait for it, and throw its error. Accelerate only writes in the foreground.
  bool background = false;
  /// Not set: that of AcceleratorOptions::fsdp_plugin, or Full.
  std::optional<StateDictType> state_dict_type;
};

/// Size limit of a shard in Accelerator::save_model: Accelerate's "10GB".
constexpr std::uint64_t kAccelerateMaxShardBytes = 10'000'000'000;

struct LoadStateOptions {
  /// Continue with another number of ranks: from the data position of all ranks together, but not bit for bit (see
  /// resume_state).
  bool allow_world_size_change = false;
};

}  // namespace lockstep
