#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/tables/parquet/parquet_metadata.h"
#include "lockstep/data/tables/table.h"

namespace lockstep {

/// A column of a Parquet file.
struct ParquetField {
  TableField field;
  std::size_t leaf = 0;  ///< its place among the chunks of a group of rows; of a nested column, the first one
  std::size_t node = 0;  ///< its node in the tree
  bool may_hold_nulls = false;
};

/// The columns of a tree of nodes, nested ones each as one.
/// @param leaves  becomes the number of leaves of the tree
/// @throws TableFault  if the nodes make no tree
std::vector<ParquetField> parquet_fields(const std::vector<ParquetNode>& nodes, std::size_t& leaves);

}  // namespace lockstep
