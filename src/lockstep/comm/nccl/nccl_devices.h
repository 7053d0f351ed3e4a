#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// The current CUDA device of this thread. @throws Error  if this process sees no device
int current_cuda_device(const Membership& membership);

/// Publishes the device of this rank, and compares it with the others.
/// @throws Error  if two ranks have the same device, naming both, or ranks run different versions of NCCL
/// @throws TimeoutError  naming the ranks that did not arrive
void check_devices_differ(const Membership& membership, int device, Deadline deadline);

}  // namespace lockstep
