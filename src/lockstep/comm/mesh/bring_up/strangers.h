#pragma once

#include <string>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Warns once in this process, on rank 0, if the ranks are on several networks and `engine` is one that takes
/// connections without the job's secret. @param engine  "gloo", "mpi" or "nccl"
/// @param ports  whose ports a stranger would reach: "10.0.0.1" or "MPI's ports"
/// @throws Error  on every rank, if encryption was asked for: these engines have none
void warn_of_strangers(const Membership& members, const std::string& engine, const std::string& ports);

}  // namespace lockstep
