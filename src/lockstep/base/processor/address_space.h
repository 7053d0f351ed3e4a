#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

/// The most bytes of addresses that this process may have (RLIMIT_AS, `ulimit -v`); nothing if there is no limit.
/// Allocations beyond it fail while the host has memory left.
std::optional<std::uint64_t> address_space_limit();

}  // namespace lockstep
