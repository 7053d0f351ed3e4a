#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives by NCCL between CUDA devices, one of each rank: that which is current when the group comes up.
///
/// An operation gets in line behind what the caller's current stream has been given, on a stream of the group's own; a
/// call returns, and `Work::wait` does, when the device has done it. So deadlines, lost ranks and ranks that disagree
/// are told as by the other engines. Unlike those, NCCL adds fp16 and bf16 in their own precision.
///
/// @throws Error  where a rank has no device, or two ranks have the same one
std::unique_ptr<Communicator> make_nccl_communicator(Membership membership);

}  // namespace lockstep
