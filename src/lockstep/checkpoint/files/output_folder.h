#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/checkpoint_names.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/checkpoint/files/staging_lock.h"

namespace lockstep {

/// The folder that checkpoints are published in. Names that start with a dot are beside: being written, being removed,
/// or standing by while one checkpoint takes the place of another. One job writes into it, by rank 0; where a second
/// one does so too, neither removes what the other is writing.
class OutputFolder {
 public:
  OutputFolder(FileSystem& files, std::string path, CheckpointNames names = CheckpointNames::numbered());

  struct Entry {
    std::string path;
    std::int64_t step = 0;
    std::optional<Manifest> manifest;  ///< none: it cannot be read
    std::string problem;               ///< why
  };
  /// The checkpoints that this library published, the newest first; damaged ones, whose age is not known, last. Folders
  /// without a manifest are not of this library unless `with_foreign`.
  std::vector<Entry> entries(bool with_foreign) const;

  std::string final_path(std::int64_t step) const { return path_ + "/" + names_.of(step); }

  /// Finishes what a crash may have left half done: puts back a checkpoint that stands by, removes the rest. Nothing
  /// that was published is touched, nor what a process that lives is writing. Does not throw: what cannot be removed is
  /// in the way of nothing but space.
  void recover() noexcept;
  /// Makes a staging folder, under a name that no other save has: a rank that is still busy with a save that failed
  /// must not write into the next one's. It is this object's until `publish` or the end. @param number  of the save
  /// @return  its path  @throws Error
  std::string stage(std::int64_t step, std::int64_t number);
  /// Gives the staging folder its name, in one step where there was none of that name or the file system can swap.
  /// @throws Error  a checkpoint that had that name is then still there. Or if the one folder of a name holds something
  /// else: who chose the name may have more in it
  void publish(const std::string& staging, std::int64_t step);
  /// Removes the oldest checkpoints until `limit` are left, but neither `newest` nor `best`. Does not throw: a warning
  /// is logged for one that cannot be removed.
  void rotate(int limit, std::int64_t newest, std::optional<std::int64_t> best) noexcept;

 private:
  void replace(const std::string& staging, const std::string& final);
  void set_aside_foreign(const std::string& path);
  void remove_checkpoint(const std::string& path) noexcept;
  std::string beside(const char* kind, const std::string& name) const;
  bool is_staging(const std::string& name) const;
  bool is_left_behind(const std::string& name) const;
  void put_back_or_remove(const std::string& name);

  FileSystem& files_;
  std::string path_;
  CheckpointNames names_;
  StagingLock writing_;
};

}  // namespace lockstep
