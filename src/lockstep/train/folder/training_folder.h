#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/train/folder/output_folder_lock.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The folder that a training writes into, and this process's right to do so. If nothing is saved, the folder need not
/// exist or be writable, and every process has that right.
class TrainingFolder {
 public:
  explicit TrainingFolder(const TrainingArguments& args);

  const std::string& path() const { return path_; }
  /// Takes the folder, unless this process has it, and removes what killed processes left of files there. Waits for
  /// another process, and throws, as OutputFolderLock::take.
  void take(OutputFolderLock::Awaited awaited, std::optional<std::chrono::milliseconds> patience = {});
  /// Takes the folder, unless another process has it. Does not wait.
  /// @param holder  as OutputFolderLock::try_take
  /// @return  whether this process may write into the folder
  bool try_take(std::string& holder);

 private:
  bool needs_lock() const;

  std::string path_;
  bool is_saved_into_;
  std::shared_ptr<const OutputFolderLock> lock_;
};

}  // namespace lockstep
