#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// Gives this process the variables that torchrun would, where another launcher started it and RANK and WORLD_SIZE are
/// not set: RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE from Open MPI's OMPI_COMM_WORLD_RANK, ..._SIZE,
/// ..._LOCAL_RANK and ..._LOCAL_SIZE. `init_process_group`, Trainer and Accelerator call it; a program that reads RANK
/// itself calls it first. To be called before threads start: it changes the environment.
/// @throws Error  where a variable is no number
void adopt_launcher_environment();

/// A text that is the same in all ranks that one mpirun started on this host, and in no others; nothing where no mpirun
/// started this process.
std::optional<std::string> mpi_job();

}  // namespace lockstep
