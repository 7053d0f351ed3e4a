#include "lockstep/train/folder/training_folder.h"

#include <unistd.h>

#include "lockstep/base/files/unfinished_files.h"

namespace lockstep {

TrainingFolder::TrainingFolder(const TrainingArguments& args)
    : path_(args.output_dir), is_saved_into_(args.save_strategy != "no") {}

bool TrainingFolder::needs_lock() const { return !lock_ && (is_saved_into_ || ::access(path_.c_str(), W_OK) == 0); }

void TrainingFolder::take(OutputFolderLock::Awaited awaited, std::optional<std::chrono::milliseconds> patience) {
  if (!needs_lock()) return;
  lock_ = OutputFolderLock::take(path_, awaited, patience);
  if (lock_->is_held()) remove_unfinished_files(path_);
}

bool TrainingFolder::try_take(std::string& holder) {
  if (!needs_lock()) return true;
  lock_ = OutputFolderLock::try_take(path_, holder);
  if (lock_ && lock_->is_held()) remove_unfinished_files(path_);
  return lock_ != nullptr;
}

}  // namespace lockstep
