#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/detail/checkpoint/checkpoint_names.h"

namespace lockstep {

class FileSystem;

struct CheckpointWriterOptions {
  std::string output_dir;                               ///< made if missing; all ranks must see the same folder
  CheckpointNames names = CheckpointNames::numbered();  ///< names of the folders in it
  int save_total_limit = 0;  ///< checkpoints to keep, always including the best and the newest; 0: all
  bool background = true;    ///< another thread writes a snapshot while training continues
  /// Longest wait for a rank that is not writing its part. A rank that is writing is awaited as long as it lives.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  FileSystem* file_system = nullptr;  ///< null: the real one. Tests of the library inject faults by it
};

/// The time that the last save took on this rank.
struct SaveTimes {
  double wait_s = 0;      ///< the caller waits for the previous save
  double snapshot_s = 0;  ///< the caller copies the content
  double write_s = 0;     ///< the writer, from the first byte to the published folder; 0 while it writes
};

/// Writes checkpoints that are either whole or absent: `output_dir/checkpoint-N`.
///
/// A checkpoint is written in the folder `.tmp-checkpoint-N-NUMBER-TOKEN`. Every rank writes and syncs its files. Then
/// rank 0 adds the manifest (sizes and SHA-256 of all files), syncs the folder, renames it, and syncs the parent. Only
/// then are checkpoints beyond `save_total_limit` removed, the oldest first. A crash, a full disk or a lost rank at any
/// moment leaves every published checkpoint as it was; the next save removes unfinished folders.
///
/// In the background, `save` copies its content into memory kept for this purpose (as large as the content, allocated
/// at the first save) and returns. At most one write is in progress: an early save waits for the previous one.
///
/// Ranks communicate through the job's store, so that the communicator stays free for training. One thread at a time
/// per object.
class CheckpointWriter {
 public:
  /// Collective. @param communicator  of the ranks that save together; null for a single rank
  /// @throws Error  if the folder cannot be made, or differs between ranks of a host
  explicit CheckpointWriter(CheckpointWriterOptions options, std::shared_ptr<Communicator> communicator = nullptr);
  /// Waits for a write in progress. An error that no call has thrown is logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Starts a checkpoint; every rank calls it in the same order. In the foreground it is published on return.
  ///
  /// If the previous save failed, this throws that error first, on every rank, and starts nothing: call it again to
  /// save.
  /// @return  the checkpoint's path, present or future
  /// @throws Error  of the previous save, or of this one, if the content is invalid or, in the foreground, cannot be
  /// written
  std::string save(const CheckpointContent& content);
  /// Returns when the last checkpoint is published. Call it at the end, before the process exits.
  /// @throws Error  on every rank, with the failed rank and the cause, if it could not be written
  void wait();

  /// Path of the newest checkpoint that this object published; empty before the first.
  std::string last_published() const;
  SaveTimes last_times() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
