#pragma once

#include "lockstep/data/tables/parquet/parquet_metadata.h"
#include "lockstep/data/tables/table.h"

namespace lockstep {

/// How Parquet stores a value; the numbers are those of its files.
enum class ParquetType { Boolean, Int32, Int64, Int96, Float, Double, ByteArray, FixedByteArray };

/// The type of a node without children. @throws TableFault  if there is no such type
TableField parquet_leaf_type(const ParquetNode& node);

/// The number of bits that a whole number has, and whether it may be negative.
int bits_of_whole(const ParquetNode& node);
bool is_signed_whole(const ParquetNode& node);

}  // namespace lockstep
