#pragma once

#include <cstddef>

namespace lockstep::shm {

/// Memory that this process may still allocate: what the host has available (MemAvailable), cut by the limits of the
/// cgroups that it is in (versions 1 and 2). The largest number where neither can be read.
std::size_t available_memory_bytes();

}  // namespace lockstep::shm
