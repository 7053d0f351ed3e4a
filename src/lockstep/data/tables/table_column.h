#pragma once

#include <cstdint>

#include "lockstep/data/tables/column_block.h"

namespace lockstep {

/// The values of one column, in blocks of consecutive rows.
///
/// The calls may run on several threads at once.
class TableColumn {
 public:
  virtual ~TableColumn() = default;
  TableColumn(const TableColumn&) = delete;
  TableColumn& operator=(const TableColumn&) = delete;

  /// The block with a row of the table.
  virtual std::size_t block_of(std::int64_t row) const = 0;
  virtual std::int64_t first_row(std::size_t block) const = 0;
  /// Decodes a block. @throws Error  with the file and the rows, if its bytes are damaged, or written in a way that is
  /// not read
  virtual ColumnBlock decode(std::size_t block) const = 0;

 protected:
  TableColumn() = default;
};

}  // namespace lockstep
