#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// The CUDA device that is current in this thread. @throws Error  where this process sees none
int current_cuda_device(const Membership& membership);

/// Tells the others which device this rank has, and compares.
/// @throws Error  where two ranks have the same device, naming both, or ranks run different versions of NCCL
/// @throws TimeoutError  naming the ranks that did not come
void check_devices_differ(const Membership& membership, int device, Deadline deadline);

}  // namespace lockstep
