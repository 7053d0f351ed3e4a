#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A job's folders: a private one for its socket, removed at the end, and a log folder if logs are wanted.
class JobFolder {
 public:
  /// @param log_base  folder in which to create "<run_id>_XXXXXX"; empty: the folder for temporary files
  /// @throws Error  if a folder cannot be created
  JobFolder(const std::string& run_id, const std::string& log_base, bool wants_log_files);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& private_path() const { return private_path_; }
  const std::string& log_path() const { return log_path_; }  ///< empty if no logs are wanted
  std::string socket_path() const { return private_path_ + "/store"; }
  /// Tells the ranks where the store is once it has moved.
  std::string store_file() const { return private_path_ + "/store-now"; }

  /// "attempt_<attempt>/<local_rank>" in the log folder, in torchrun's naming, or in the private folder; created if
  /// missing.
  /// @param member  of a process that takes a lost rank's place, which has a folder of its own; -1: a rank of the start
  std::string rank_path(std::int64_t attempt, int local_rank, int member = -1) const;

 private:
  std::string private_path_;
  std::string log_path_;
};

}  // namespace lockstep
