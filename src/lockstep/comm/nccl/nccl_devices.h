#pragma once

#include <c10/core/Device.h>

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The current CUDA device of this thread. @throws Error  if this process sees no device
int current_cuda_device(const Membership& membership);

/// Publishes the device of this rank, and compares it with the others.
/// @throws Error  if two ranks have the same device, naming both, or ranks run different versions of NCCL
/// @throws TimeoutError  naming the ranks that did not arrive
void check_devices_differ(const Membership& membership, int device, Deadline deadline);

/// @throws Error  if the current stream of `device` is being captured into a CUDA graph: an operation asks the device
/// whether it has ended, which a capture does not allow, and would leave out of a replay what ranks must agree on
void refuse_capture(const std::string& operation, const Membership& membership, c10::Device device);

}  // namespace lockstep
