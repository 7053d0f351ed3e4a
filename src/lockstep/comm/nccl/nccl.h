#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives by NCCL between CUDA devices, one per rank: the device that is current when the group connects.
///
/// An operation is queued after the work on the caller's current stream, on a stream of the group. A call, or
/// `Work::wait`, returns when the device has finished the operation. So deadlines, lost ranks and disagreeing ranks are
/// reported as by the other engines. Unlike those, NCCL adds fp16 and bf16 in their own precision.
///
/// @throws Error  if a rank has no device, or two ranks have the same one
std::unique_ptr<Communicator> make_nccl_communicator(Membership membership);

}  // namespace lockstep
