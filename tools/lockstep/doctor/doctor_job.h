// Processes that a step of `lockstep doctor` starts, with a limit on their time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lockstep/doctor/doctor_step.h"

namespace lockstep {

/// The output of a command of a shell, its errors among it, and the seconds that it took.
struct CommandEnd {
  std::string output;
  double seconds = 0;
};

/// Runs a command, and ends it after `limit_s`.
/// @throws Error  with the last lines that it wrote, if it fails or does not end in time
CommandEnd run_with_limit(const std::string& command, int limit_s);

/// Runs a part in one process, or in `ranks` processes of a job. Returns the figures of the first one; their field
/// "start_s" is the time that is not the part's own: to start, load the libraries, and end.
/// @param device  passed on; -1: the CPU
/// @throws Error  as above
nlohmann::ordered_json run_part(const std::string& part, const DoctorOptions& options, int device = -1);
nlohmann::ordered_json run_part_on_ranks(const std::string& part, int ranks, const DoctorOptions& options);
/// The same without a launcher, which would end the other ranks when one is lost. The last rank may be killed.
nlohmann::ordered_json run_part_on_lone_ranks(const std::string& part, int ranks, const DoctorOptions& options);

/// What a part does at its end: writes its figures, if it is the first rank, and the time that it took.
void write_figures(const std::string& path, nlohmann::ordered_json figures, double seconds);

}  // namespace lockstep
