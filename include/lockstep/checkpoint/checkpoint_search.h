#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/detail/checkpoint/checkpoint_names.h"

namespace lockstep {

/// A folder that has the name of a checkpoint but cannot be used.
struct DamagedCheckpoint {
  std::string path;
  std::string reason;
};

/// The result of `find_newest_checkpoint`.
struct CheckpointSearch {
  std::optional<Checkpoint> newest;  ///< nothing if there is no whole checkpoint
  /// Skipped checkpoints: those that are newer, newest first, and those of unknown age.
  std::vector<DamagedCheckpoint> damaged;
  /// One line for each damaged checkpoint; empty if there is none.
  std::string notice() const;
};

/// `output_dir/checkpoint-N`
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);
/// N, if the folder has the name of a checkpoint.
std::optional<std::int64_t> step_of_checkpoint(const std::string& path);

/// The newest whole checkpoint in `output_dir`: the one that was written last. After a return to an earlier checkpoint
/// this need not be the one with the highest step. All bytes are verified.
CheckpointSearch find_newest_checkpoint(const std::string& output_dir,
                                        const CheckpointNames& names = CheckpointNames::numbered());

/// Searches for a whole job: rank 0 searches, and every rank opens the result. Collective.
/// @throws Error  on every rank, if one rank cannot open it or sees another checkpoint at that path (no shared file
/// system)
CheckpointSearch find_newest_checkpoint(const std::string& output_dir, Communicator& communicator,
                                        const CheckpointNames& names = CheckpointNames::numbered());

/// Opens one checkpoint on every rank, verified by rank 0. Collective. For `resume_from_checkpoint=PATH`, and for the
/// best checkpoint.
/// @throws Error  on every rank, if it is damaged or one rank cannot open it
Checkpoint open_checkpoint(const std::string& folder, Communicator& communicator);

}  // namespace lockstep
