#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The variables that Slurm's srun sets in each process that it starts: the tasks of one job step, one rank each.
struct SlurmStep {
  std::int64_t job_id = 0;         ///< SLURM_JOB_ID
  std::int64_t step_id = 0;        ///< SLURM_STEP_ID: the job's steps are numbered from 0
  int rank = 0;                    ///< SLURM_PROCID
  int world_size = 1;              ///< SLURM_STEP_NUM_TASKS
  int local_rank = 0;              ///< SLURM_LOCALID
  int node_rank = 0;               ///< SLURM_NODEID
  std::vector<std::string> hosts;  ///< SLURM_STEP_NODELIST, by node rank
  std::vector<int> tasks;          ///< SLURM_STEP_TASKS_PER_NODE, by node rank

  int local_world_size() const { return tasks.at(static_cast<std::size_t>(node_rank)); }
  /// The port at which rank 0 listens if no port is given: 15000 plus the last four digits of the job's number, so that
  /// jobs that share a host rarely collide; a later step of the job uses the next port.
  int port() const;
};

/// The step that this process is a task of; nothing if srun did not start it.
/// @throws Error  naming the variables that are missing or contradict each other
std::optional<SlurmStep> slurm_step();

/// The number of tasks that the allocation was asked for (SLURM_NTASKS), if this process runs in a job's script or
/// shell and srun did not start it. Such a process is alone, whatever the job asked for. Otherwise nothing.
std::optional<int> slurm_tasks_without_step();

/// The hosts of a list in Slurm's form: "gpu[01-03,7]-ib,login" is gpu01-ib, gpu02-ib, gpu03-ib, gpu7-ib, login.
/// @throws Error  if the text is not such a list
std::vector<std::string> expand_host_list(const std::string& text);

/// The numbers of a list in Slurm's form: "4(x2),3" is 4, 4, 3.
/// @throws Error  if the text is not such a list
std::vector<int> expand_task_counts(const std::string& text);

}  // namespace lockstep
