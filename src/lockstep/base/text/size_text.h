#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A size in decimal units, for files and traffic: "512 bytes", "4.2 kB", "17.5 MB", "2.1 GB". kB is 10^3 bytes.
std::string size_text(std::uint64_t bytes);

/// A size in binary units, for memory: "89.4 MiB", "1.28 GiB", "2.56 TiB". MiB is 2^20 bytes.
std::string memory_text(std::uint64_t bytes);

}  // namespace lockstep
