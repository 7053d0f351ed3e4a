#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

/// Decodes `count` numbers of `bits` bits, which are stored as runs of equal ones and packed pieces: Parquet's encoding
/// RLE. @throws TableFault  if there are fewer, or a number needs more than 32 bits
std::vector<std::uint32_t> decode_run_lengths(std::string_view bytes, int bits, std::size_t count);

/// `count` numbers of `bits` bits (at most 64), packed from the lowest bit on. `bytes` must hold them.
void unpack_bits(std::string_view bytes, int bits, std::size_t count, std::vector<std::uint64_t>& out);

}  // namespace lockstep
