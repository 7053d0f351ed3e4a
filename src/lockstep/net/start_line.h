#pragma once

#include <string>

namespace lockstep {

/// The shell command that starts this program as the ranks of a job: "lockstep run --nproc-per-node 2 ./mnist --epochs
/// 3". In the script of a Slurm job it begins with srun. Leaves out the program's words if they cannot be read, or are
/// long.
std::string start_line();

}  // namespace lockstep
