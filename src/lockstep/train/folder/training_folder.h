#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/train/folder/folder_presence.h"
#include "lockstep/train/folder/output_folder_lock.h"
#include "lockstep/train/folder/training_mark.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The folder that a training writes into, this process's presence there, and its right to write. If nothing is saved,
/// the folder need not exist or be writable, and every process has that right.
class TrainingFolder {
 public:
  using Patience = std::optional<std::chrono::milliseconds>;

  explicit TrainingFolder(const TrainingArguments& args);

  const std::string& path() const { return path_; }
  /// For the first rank. Enters the folder and takes it, unless this process has it, and removes what killed processes
  /// have left of files there. Waits for another process, and throws, as OutputFolderLock::take.
  /// @throws Error  if a rank of another training is present, also without its first rank: which one. If the folder is
  /// in that of another training
  void take(OutputFolderLock::Awaited awaited, Patience patience = {});
  /// For the other ranks, once the first one has taken the folder, and for a process that will join them. A rank whose
  /// host does not have the folder makes it if it may become the first one.
  /// @throws Error  as `take`
  void enter(Patience patience = {});
  /// Takes the folder, unless another process has it. Does not wait for it.
  /// @param holder  as OutputFolderLock::try_take
  /// @return  whether this process may write into the folder
  /// @throws Error  if another training is present: somebody must have removed the files of the locks
  bool try_take(std::string& holder);
  /// For the first rank, before it writes: if somebody has removed the files of the locks, takes the folder once more.
  /// @throws Error  as `take`: another training may have begun there. If it has ended meanwhile, too
  void keep();

 private:
  bool needs_lock() const;
  void be_present(FolderPresence::As as, Patience patience);
  void have_taken();
  std::optional<TrainingMark> mark_of_another() const;

  std::string path_;
  bool is_saved_into_;
  bool may_become_first_;
  std::shared_ptr<const FolderPresence> presence_;
  std::shared_ptr<const OutputFolderLock> lock_;
  std::optional<TrainingMark> mark_;  // of this training
};

}  // namespace lockstep
