#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/files/checkpoint_names.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

/// A folder that is named like a checkpoint and cannot be used.
struct DamagedCheckpoint {
  std::string path;
  std::string reason;
};

/// What `find_newest_checkpoint` saw.
struct CheckpointSearch {
  std::optional<Checkpoint> newest;  ///< none: there is no checkpoint, or no whole one
  /// Passed over: those that are newer, newest first, and those whose age cannot be told.
  std::vector<DamagedCheckpoint> damaged;
  /// One line for each damaged one, or nothing.
  std::string notice() const;
};

/// `output_dir/checkpoint-N`
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);
/// N of a folder's name, where it is one of a checkpoint.
std::optional<std::int64_t> step_of_checkpoint(const std::string& path);

/// The newest whole checkpoint of `output_dir`: the one that was written last, which after a return to an earlier
/// checkpoint need not be that of the highest step. All bytes are verified.
CheckpointSearch find_newest_checkpoint(const std::string& output_dir,
                                        const CheckpointNames& names = CheckpointNames::numbered());

/// The same for a job: rank 0 searches, and every rank opens what it found. Collective.
/// @throws Error  on every rank, if one cannot open it or sees another one under that path (no shared file system)
CheckpointSearch find_newest_checkpoint(const std::string& output_dir, Communicator& communicator,
                                        const CheckpointNames& names = CheckpointNames::numbered());

/// Opens one checkpoint on every rank, verified by rank 0. Collective. For `resume_from_checkpoint=PATH`, and for the
/// best one.
/// @throws Error  on every rank, if it is damaged or one cannot open it
Checkpoint open_checkpoint(const std::string& folder, Communicator& communicator);

}  // namespace lockstep
