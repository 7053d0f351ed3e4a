#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {

/// The options that mpirun needs in a test, whoever runs it: as root, with more ranks than cores, without moving a
/// rank to one core, and without ending all ranks when one ends.
std::vector<std::string> mpirun_words(int count);
/// Variables for the same.
std::map<std::string, std::optional<std::string>> mpirun_changes();

/// Ranks' places in one job of mpirun, for processes that a test forks itself: whoever takes over the variables of a
/// place is that rank for MPI. mpirun starts a shell in each place, which tells its variables and waits.
class MpiPlaces {
 public:
  /// Why there is no mpirun here; nothing if there is one.
  static std::optional<std::string> why_not();
  explicit MpiPlaces(int count);
  ~MpiPlaces();
  MpiPlaces(const MpiPlaces&) = delete;
  MpiPlaces& operator=(const MpiPlaces&) = delete;

  const std::map<std::string, std::string>& variables(int rank) const {
    return variables_.at(static_cast<std::size_t>(rank));
  }

 private:
  TemporaryFolder folder_;
  UniqueFd hold_;  // the shells wait until this end is closed, also by this process's death
  std::unique_ptr<RunningProgram> mpirun_;
  std::vector<std::map<std::string, std::string>> variables_;
};

}  // namespace lockstep
