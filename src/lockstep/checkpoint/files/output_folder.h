#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/checkpoint/files/staging_lock.h"
#include "lockstep/detail/checkpoint/checkpoint_names.h"

namespace lockstep {

/// The folder in which checkpoints are published. Entries whose names start with a dot are not published: they are
/// being written, being removed, or kept while one checkpoint replaces another. One job writes into it, by rank 0. If a
/// second job does too, neither removes what the other is writing.
class OutputFolder {
 public:
  OutputFolder(FileSystem& files, std::string path, CheckpointNames names = CheckpointNames::numbered());

  struct Entry {
    std::string path;
    std::int64_t step = 0;
    std::optional<Manifest> manifest;  ///< nothing: it cannot be read
    std::string problem;               ///< why
  };
  /// This library's published checkpoints, the newest first; damaged ones, whose age is unknown, last. Folders without
  /// a manifest are included only if `with_foreign`.
  std::vector<Entry> entries(bool with_foreign) const;

  std::string final_path(std::int64_t step) const { return path_ + "/" + names_.of(step); }

  /// Finishes or undoes what a crash may have interrupted: puts back a checkpoint that was being replaced, and removes
  /// the rest. Published checkpoints, and folders that a living process is writing, are not touched. Does not throw: an
  /// entry that cannot be removed only occupies space.
  void recover() noexcept;
  /// Makes a staging folder with a name that no other save uses, because a rank that is still busy with a failed save
  /// must not write into the next one. This object owns the folder until `publish` or its end. @param number  of the
  /// save
  /// @return  its path  @throws Error
  std::string stage(std::int64_t step, std::int64_t number);
  /// Gives the staging folder its final name, atomically if that name is free or the file system can swap names.
  /// @throws Error  the checkpoint with that name, if any, still exists then. Also if a single-named folder holds
  /// something other than a checkpoint: the user may keep other files in it
  void publish(const std::string& staging, std::int64_t step);
  /// Removes the oldest checkpoints until `limit` are left, but never `newest` or `best`. Does not throw: logs a
  /// warning for a checkpoint that cannot be removed.
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
