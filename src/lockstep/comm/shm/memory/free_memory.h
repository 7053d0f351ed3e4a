#pragma once

#include <cstddef>

namespace lockstep::shm {

/// Memory that this process may still allocate: what the host has available (MemAvailable), limited by its cgroups
/// (versions 1 and 2). The largest number if neither can be read.
std::size_t available_memory_bytes();

}  // namespace lockstep::shm
