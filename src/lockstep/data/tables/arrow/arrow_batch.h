#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/data/tables/arrow/arrow_schema.h"
#include "lockstep/data/tables/column_block.h"
#include "lockstep/data/tables/kept_bytes.h"

namespace lockstep {

/// The columns of one batch of rows: a table RecordBatch, and its buffers.
class ArrowBatch {
 public:
  ArrowBatch(const FlatTable& batch, std::string_view body) : batch_(batch), body_(body) {}

  std::int64_t rows() const { return batch_.number<std::int64_t>(0, 0); }
  /// The values of a column; of one with a dictionary, `dictionary` has them. @throws TableFault  if they are damaged,
  /// or compressed in a way that is not read
  ColumnBlock column(const ArrowField& field, const ColumnBlock* dictionary) const;
  /// The values of a dictionary, whose batch has no other column.
  ColumnBlock values(const ArrowField& field) const;

 private:
  KeptBytes buffer(std::size_t index) const;
  std::size_t first_buffer(const ArrowField& field) const;
  std::size_t require_rows(std::size_t node) const;
  std::vector<std::uint32_t> validity(std::size_t buffer, std::size_t rows) const;
  ValueList decode(const ArrowLayout& layout, std::size_t buffer, std::size_t rows) const;
  ColumnBlock block(const ArrowLayout& layout, std::size_t node, std::size_t buffer) const;

  FlatTable batch_;
  std::string_view body_;
};

}  // namespace lockstep
