#pragma once

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Sets the threads with which LibTorch and OpenBLAS compute in this process.
void compute_with_threads(int threads);

/// Gives a rank that was started by hand its share of the host's cores. A rank's threads are chosen before it knows
/// other ranks, from what its launcher says of them. If nothing says it (WORLD_SIZE is set, LOCAL_WORLD_SIZE is not),
/// each rank takes all cores, and together they have too many threads. The group knows which ranks run on the host, and
/// the kernel to which cores each of them is bound: only cores that ranks share are divided. A later group with other
/// ranks divides again. Threads that the user or the program chose stay as they are.
void share_host_threads(const Membership& membership);

}  // namespace lockstep
