#pragma once

#include <c10/core/Device.h>

namespace lockstep {

/// The CUDA device of this process among those of its host, by the number that the launcher set (LOCAL_RANK, default
/// 0); the CPU if this process sees no CUDA device. If it sees only one, that one: the starter of the process has
/// chosen it.
/// @throws Error  if it sees fewer devices than LOCAL_RANK requires
c10::Device local_device();

/// Makes `local_device` the current device of this thread, as torch.cuda.set_device(local_rank) does in programs for
/// PyTorch, and returns it. Without CUDA it changes nothing.
c10::Device use_local_device();

/// `use_local_device`, unless the program has already chosen: a device other than the first is current.
c10::Device use_local_device_by_default();

}  // namespace lockstep
