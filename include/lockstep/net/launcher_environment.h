#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Gives this process the variables that torchrun would, where another launcher started it and RANK and WORLD_SIZE are
/// not set:
///   - mpirun of Open MPI: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
///   - srun of Slurm: these, GROUP_RANK (the host's number), MASTER_ADDR (the first host) and MASTER_PORT, see
///   SlurmStep
/// Warns where a Slurm job of several tasks started this process without srun. `init_process_group`, Trainer and
/// Accelerator call it; a program that reads RANK itself calls it first. To be called before threads start: it changes
/// the environment.
/// @throws Error  where a variable is no number, or Slurm's do not fit each other
void adopt_launcher_environment();

/// A text that is the same in all ranks that one mpirun started on this host, and in no others; nothing where no mpirun
/// started this process.
std::optional<std::string> mpi_job();

}  // namespace lockstep
