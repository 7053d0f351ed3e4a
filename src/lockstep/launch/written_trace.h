#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The trace that the job's ranks write.
class WrittenTrace {
 public:
  /// @param file  as `lockstep run --trace` names it; empty: none is wanted. A file that is there already is an earlier
  /// job's.
  explicit WrittenTrace(std::string file);

  /// The trace's own summary, as lines for a person. Empty if no file was written here: none was wanted, or rank 0 runs
  /// on another node.
  std::string summary() const;

 private:
  std::string file_;
  std::filesystem::file_time_type before_;  // when the file that is replaced was written
};

}  // namespace lockstep
