// What `lockstep chaos` prints at its end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/chaos/disturbed_run.h"

namespace lockstep {

struct ChaosResult {
  int ranks = 0;
  int hosts = 0;  ///< 0: this machine alone
  std::uint64_t seed = 0;
  ChaosCounts counts;
  std::map<std::string, std::string> expected;  ///< digests of the undisturbed training's files, by path
  std::string found;                            ///< of the last disturbed training's weights; empty: none
  std::vector<std::string> differs;             ///< files that the disturbed training wrote otherwise
  std::string logs;                             ///< folder of the logs of trainings with troubles; empty: none

  /// What went wrong: failures, restarts, ranks that ended by themselves, files that differ.
  int troubles() const;
};

/// @return  the exit code: 0 if all weights are equal and no fault made all ranks start again
int print_chaos_report(const ChaosResult& result, std::ostream& out);

}  // namespace lockstep
