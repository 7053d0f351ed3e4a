#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/slurm/job_launcher.h"
#include "tools/slurm/shell_commands.h"
#include "tools/slurm/srun_words.h"

namespace lockstep {

/// In place of the "$" of what the script's own shell expands.
constexpr char kExpandedByScript = '\x01';

/// What a command of a script starts, directly, by srun, or by srun and "sh -c".
struct StartedProgram {
  int line = 0;
  bool by_srun = false;
  std::vector<SlurmOption> options;     ///< srun's
  Words words;                          ///< of the program, or of the launcher within a shell, without quotes
  std::optional<JobLauncher> launcher;  ///< among the words
  bool is_outlived_by_shell = false;    ///< the shell around the launcher has more to do, and no trap
};

StartedProgram started_by(const ShellCommand& command);

/// The number that the last option of this name has.
std::optional<int> number_among(const std::vector<SlurmOption>& options, const std::string& name);

}  // namespace lockstep
