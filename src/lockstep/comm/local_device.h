#pragma once

#include <c10/core/Device.h>

namespace lockstep {

/// The CUDA device of this process among those of its host, by the number that the launcher gave it (LOCAL_RANK, 0
/// where there is none); the CPU where this process sees no CUDA device. Where it sees one alone, that one: whoever
/// started it has chosen.
/// @throws Error  where it sees fewer devices than LOCAL_RANK needs
c10::Device local_device();

/// Makes that device the current one of this thread, as torch.cuda.set_device(local_rank) does in programs for
/// PyTorch, and returns it. Nothing where there is no CUDA.
c10::Device use_local_device();

/// The same, unless the program has chosen already: another device than the first is current.
c10::Device use_local_device_by_default();

}  // namespace lockstep
