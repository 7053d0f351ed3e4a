#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What Slurm's srun tells each process that it starts: the tasks of one job step, a rank each.
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
  /// Where rank 0 can be met when nobody says otherwise: 15000 and the last four digits of the job's number, so that
  /// jobs that share a host hardly ever meet; a later step of a job takes the next one.
  int port() const;
};

/// The step that this process is a task of; nothing where no srun started it.
/// @throws Error  if the variables are incomplete or do not fit each other, naming them
std::optional<SlurmStep> slurm_step();

/// How many tasks the allocation was asked for (SLURM_NTASKS), where this process runs in a job's script or shell but
/// no srun started it: it is one process, whatever the job asked for. Else nothing.
std::optional<int> slurm_tasks_without_step();

/// The hosts of a list as Slurm writes it: "gpu[01-03,7]-ib,login" is gpu01-ib, gpu02-ib, gpu03-ib, gpu7-ib, login.
/// @throws Error  if the text is no such list
std::vector<std::string> expand_host_list(const std::string& text);

/// The numbers of a list as Slurm writes it: "4(x2),3" is 4, 4, 3.
/// @throws Error  if the text is no such list
std::vector<int> expand_task_counts(const std::string& text);

}  // namespace lockstep
