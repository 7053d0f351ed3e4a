#pragma once

#include <string>

namespace lockstep {

/// The command that starts this very program as the ranks of a job, as a shell takes it: "lockstep run --nproc-per-node
/// 2
/// ./mnist --epochs 3". Without the program's words where they cannot be read, or are long.
std::string start_line();

}  // namespace lockstep
