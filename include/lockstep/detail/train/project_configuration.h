#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Where an Accelerator keeps its files: Accelerate's class with this name.
struct ProjectConfiguration {
  std::string project_dir;                   ///< folder of checkpoints; all ranks must see the same folder
  std::string logging_dir;                   ///< folder of trackers; empty: project_dir
  bool automatic_checkpoint_naming = false;  ///< save_state() writes `project_dir/checkpoints/checkpoint_ITERATION`
  int total_limit = 0;                       ///< number of newest such checkpoints that are kept; 0: all
  std::int64_t iteration = 0;                ///< ITERATION of the next such checkpoint
};

}  // namespace lockstep
