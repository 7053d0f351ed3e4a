#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/tables/byte_reader.h"

namespace lockstep {

/// Decodes exactly `count` numbers of Parquet's encoding DELTA_BINARY_PACKED, modulo 2^64, and leaves `in` behind them.
/// @throws TableFault  if there are more or fewer
std::vector<std::uint64_t> decode_delta_numbers(ByteReader& in, std::size_t count);

}  // namespace lockstep
