#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/frame/file_findings.h"

namespace lockstep {

/// The properties of a Slurm job, under sbatch's names; empty and 0 mean the cluster's default.
struct SbatchOptions {
  std::string job_name;  ///< default: the program's name
  int nodes = 1;
  int ntasks_per_node = 1;  ///< one rank each
  std::optional<int> cpus_per_task;
  int gpus_per_node = 0;
  std::string partition;
  std::string account;
  std::optional<std::string> time;  ///< limit, in a form that sbatch reads: "90", "1:30:00", "2-00:00:00"
  std::string mem;                  ///< per node, "64G"
  std::string output = "%x-%j.out";
  /// The ranks get SIGUSR1 this long before the limit, save a checkpoint and leave; the job then queues again. 0:
  /// never.
  int signal_seconds = 120;
  bool requeue = true;
  std::vector<std::string> command;  ///< the program and its arguments
};

/// The text of a script for sbatch that starts `command` once per task. Words that a shell would split are quoted.
/// @throws Error  naming the option, if one is invalid for Slurm
std::string sbatch_file(const SbatchOptions& options);

/// Problems in a script that should start a data-parallel job: programs without srun, options that srun and sbatch do
/// not know, GPUs that do not fit the tasks, comments that contradict the options. Empty if none was found.
std::vector<FileFinding> check_sbatch_file(const std::string& text);

}  // namespace lockstep
