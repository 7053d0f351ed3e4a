#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/checkpoint_content.h"
#include "lockstep/checkpoint/files/checkpoint_names.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

struct CheckpointWriterOptions {
  std::string output_dir;                               ///< made if it is not there; all ranks must see the same folder
  CheckpointNames names = CheckpointNames::numbered();  ///< of the folders in it
  int save_total_limit = 0;  ///< checkpoints kept, the best one and the newest always among them; 0: all
  bool background = true;    ///< write from a snapshot in a thread of its own, while training goes on
  /// Longest wait for the part of another rank that does not write: one that does is waited for while it lives.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  FileSystem* file_system = nullptr;  ///< null: the real one. Must outlive the writer
};

/// What the last save cost this rank.
struct SaveTimes {
  double wait_s = 0;      ///< the caller's, for the save before to end
  double snapshot_s = 0;  ///< the caller's, for the copy
  double write_s = 0;     ///< of the writer, from the first byte to the published folder; 0 while it writes
};

/// Writes checkpoints that are whole or not there: `output_dir/checkpoint-N`.
///
/// A checkpoint is written beside, in `.tmp-checkpoint-N`: every rank writes its files and syncs them; when all have,
/// rank 0 adds the manifest (sizes and SHA-256 of all files), syncs the folder, renames it, and syncs the parent. Only
/// then older ones beyond `save_total_limit` go, the oldest first. A crash, a full disk or a lost rank at any moment
/// leaves every checkpoint that was published before as it was; what is left beside is removed by the next save.
///
/// In the background: `save` copies what it is given into memory kept for it (as large as the content, allocated at the
/// first save) and returns. At most one write is under way: a save that comes earlier waits for the one before.
///
/// Ranks tell each other through the job's store, so that the communicator stays free for training. One thread at a
/// time per object.
class CheckpointWriter {
 public:
  /// Collective. @param communicator  of the ranks that save together; null for one rank alone
  /// @throws Error  if the folder cannot be made, or is not the same on all ranks of a host
  explicit CheckpointWriter(CheckpointWriterOptions options, std::shared_ptr<Communicator> communicator = nullptr);
  /// Waits for a write that is under way. An error that nobody asked for is logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Starts a checkpoint; every rank calls it in the same order. In the foreground it is published on return.
  ///
  /// Where the save before failed, this throws its error first, on every rank, and starts nothing: call again to save.
  /// @return  the path that the checkpoint has, or will have
  /// @throws Error  for the save before, or for this one, if the content makes no sense or, in the foreground, cannot
  /// be written
  std::string save(const CheckpointContent& content);
  /// Returns when the last checkpoint is published. To be called at the end, and before the process leaves.
  /// @throws Error  if it could not be written, with the rank and the cause, on every rank
  void wait();

  /// Path of the newest checkpoint that this object published; empty before the first.
  std::string last_published() const;
  SaveTimes last_times() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
