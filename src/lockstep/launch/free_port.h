#pragma once

#include <cstdint>

namespace lockstep {

/// A TCP port that nobody uses on this host now, on any address. Nothing listens there afterwards.
/// @throws Error  if the kernel has none left
std::uint16_t free_port();

/// @throws Error  if somebody listens on `port` of this host, or this user may not
void check_port_is_free(std::uint16_t port);

}  // namespace lockstep
