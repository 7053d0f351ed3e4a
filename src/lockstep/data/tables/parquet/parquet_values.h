#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/tables/column_block.h"
#include "lockstep/data/tables/kept_bytes.h"
#include "lockstep/data/tables/parquet/parquet_leaf_type.h"

namespace lockstep {

/// How the values of a page are written; the numbers are those of Parquet's files.
enum class ParquetEncoding {
  Plain = 0,
  PlainDictionary = 2,
  RunLengths = 3,
  BitPacked = 4,
  Delta = 5,
  DeltaLengths = 6,
  DeltaTexts = 7,
  Dictionary = 8,
  SplitBytes = 9
};

/// Decodes the `count` values of a page that are not null. The encoding is not that of a dictionary's places.
/// @throws TableFault  if the bytes are damaged, or the encoding is not read for this type
ValueList decode_values(const KeptBytes& bytes, std::int64_t encoding, std::size_t count, const ParquetNode& node);

/// Decodes `count` places in a dictionary of `size` values.
std::vector<std::uint32_t> decode_places(std::string_view bytes, std::size_t count, std::size_t size);

}  // namespace lockstep
