#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Where an Accelerator keeps its files: Accelerate's class of this name.
struct ProjectConfiguration {
  std::string project_dir;                   ///< of checkpoints; all ranks must see the same folder
  std::string logging_dir;                   ///< of trackers; empty: project_dir
  bool automatic_checkpoint_naming = false;  ///< save_state() writes `project_dir/checkpoints/checkpoint_ITERATION`
  int total_limit = 0;                       ///< of those, how many are kept, the newest ones; 0: all
  std::int64_t iteration = 0;                ///< of the next
};

}  // namespace lockstep
