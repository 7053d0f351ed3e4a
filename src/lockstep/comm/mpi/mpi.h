#pragma once

#include <memory>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives over MPI's messages, between processes that mpirun started. CPU tensors.
///
/// MPI's own collectives are not used: a rank that is gone, or calls another collective, leaves the others blocked
/// inside them forever; they add fp16 in fp16 if they support it at all; and no deadline ends them.
std::unique_ptr<Communicator> make_mpi_communicator(Membership membership);

/// For ranks on several hosts that mpirun started without a MASTER_ADDR: rank 0 chooses an address, a port and, if none
/// is set, a secret, and sends them to the others over MPI. Sets MASTER_ADDR, MASTER_PORT and LOCKSTEP_SECRET.
/// @throws Error  if LOCKSTEP_ENCRYPT is set: MPI sends in clear
void meet_by_mpi(Deadline deadline);

}  // namespace lockstep
