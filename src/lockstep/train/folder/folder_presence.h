#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/train/folder/folder_holder.h"

namespace lockstep {

/// That this process takes part in the training of an output folder. The first rank alone has the right to write there
/// (OutputFolderLock), and may be lost; as long as one rank of the training is present, no other training enters the
/// folder, so that the rank that follows the first one finds it as it was left.
///
/// It is a shared lock (flock) on the file `.lockstep.ranks` in the folder, in which all that are present are written.
/// Who finds nobody there writes itself first. The last one removes the file; one that killed processes have left keeps
/// nobody out.
class FolderPresence {
 public:
  static constexpr const char* kFile = ".lockstep.ranks";

  enum class As {
    First,     ///< a training begins: those present are of the same one only if the same launcher has started them
    Follower,  ///< the first one has entered, or the others let this one in: or they are of a job of the same name
    Successor  ///< of a lost first rank, and somebody has removed the file: or they may be of the same job
  };
  /// What came of it.
  struct Try {
    std::shared_ptr<const FolderPresence> presence;  ///< null: others are there, or the file cannot be opened
    std::vector<FolderHolder> others;                ///< of another training; empty if they have not written yet
    int problem = 0;                                 ///< errno of opening the file
  };

  /// Enters a folder unless another training is there. Makes the folder if it does not exist. Does not wait. One
  /// process may enter more than once.
  static Try try_enter(const std::string& folder, As as);
  ~FolderPresence();
  FolderPresence(const FolderPresence&) = delete;
  FolderPresence& operator=(const FolderPresence&) = delete;

  /// False if somebody has removed the file: then anybody can enter.
  bool is_in_place() const;
  /// Writes this process in the place of all others: for the first rank, just after it has the right to write. Two
  /// trainings that began at the same time may both be present until then.
  void replace_others() const { replace_holders(fd_.get()); }

 private:
  FolderPresence(std::string path, UniqueFd fd, bool is_held);
  static std::shared_ptr<const FolderPresence> enter(const std::string& path, As as, Try& result);

  std::string path_;
  UniqueFd fd_;
  bool is_held_;  // false on a file system without locks
};

}  // namespace lockstep
