#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Sets the variables that torchrun would set, if another launcher started this process and RANK and WORLD_SIZE are not
/// set:
///   - mpirun of Open MPI: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
///   - srun of Slurm: these, GROUP_RANK (the host's number), MASTER_ADDR (the first host) and MASTER_PORT (15000 plus
///     the last four digits of the job's number plus the number of the job's step)
///
/// Logs a warning if a Slurm job of several tasks started this process without srun. `init_process_group`, Trainer and
/// Accelerator call this function; a program that reads RANK itself calls it first. Call it before any thread starts,
/// because it changes the environment.
/// @throws Error  if a variable is not a number, or Slurm's variables contradict each other
void adopt_launcher_environment();

/// A text that is equal in all ranks that one mpirun started on this host, and in no others; nothing if no mpirun
/// started this process.
std::optional<std::string> mpi_job();

}  // namespace lockstep
