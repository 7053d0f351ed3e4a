#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Where a job keeps files: a private folder for its socket, removed at the end, and a log folder where one is wanted.
class JobFolder {
 public:
  /// @param log_base  folder in which to make "<run_id>_XXXXXX"; empty: in the one for temporary files
  /// @throws Error  if a folder cannot be made
  JobFolder(const std::string& run_id, const std::string& log_base, bool wants_log_files);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& private_path() const { return private_path_; }
  const std::string& log_path() const { return log_path_; }  ///< empty where none is wanted
  std::string socket_path() const { return private_path_ + "/store"; }

  /// "attempt_<attempt>/<local_rank>" in the log folder, as torchrun names it, or in the private one; made where
  /// missing.
  std::string rank_path(std::int64_t attempt, int local_rank) const;

 private:
  std::string private_path_;
  std::string log_path_;
};

}  // namespace lockstep
