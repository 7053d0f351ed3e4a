#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What a Slurm job is to be, under sbatch's names; empty and 0: the cluster's default.
struct SbatchOptions {
  std::string job_name;  ///< default: the program's name
  int nodes = 1;
  int ntasks_per_node = 1;  ///< a rank each
  std::optional<int> cpus_per_task;
  int gpus_per_node = 0;
  std::string partition;
  std::string account;
  std::optional<std::string> time;  ///< limit, in a form of sbatch's: "90", "1:30:00", "2-00:00:00"
  std::string mem;                  ///< per node, "64G"
  std::string output = "%x-%j.out";
  /// The ranks get SIGUSR1 this long before the limit, save a checkpoint and leave; the job then queues again. 0:
  /// never.
  int signal_seconds = 120;
  bool requeue = true;
  std::vector<std::string> command;  ///< the program and its arguments
};

/// The text of a script for sbatch that starts `command` once per task. Words that a shell would take apart are quoted.
/// @throws Error  if an option makes no sense to Slurm, naming it
std::string sbatch_file(const SbatchOptions& options);

/// Something in a script for sbatch that does not do what its author wants.
struct SbatchFinding {
  int line = 0;  ///< from 1; 0 for what is missing as a whole
  std::string problem;
  std::string fix;
};

/// What is wrong with a script that is to start a data-parallel job: programs without srun, options that srun and
/// sbatch do not know, GPUs that do not fit the tasks, comments that contradict. Empty where nothing was found.
std::vector<SbatchFinding> check_sbatch_file(const std::string& text);

}  // namespace lockstep
