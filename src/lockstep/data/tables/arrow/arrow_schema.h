#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/tables/arrow/flat_table.h"
#include "lockstep/data/tables/table.h"

namespace lockstep {

/// The types of Arrow's columns; the numbers are those of its files.
enum class ArrowType {
  None,
  Null,
  Int,
  FloatingPoint,
  Binary,
  Utf8,
  Bool,
  Decimal,
  Date,
  Time,
  Timestamp,
  Interval,
  List,
  Struct,
  Union,
  FixedSizeBinary,
  FixedSizeList,
  Map,
  Duration,
  LargeBinary,
  LargeUtf8,
  LargeList,
  RunEndEncoded,
  BinaryView,
  Utf8View,
  ListView,
  LargeListView
};

/// How the values of a column lie in memory.
struct ArrowLayout {
  ArrowType type = ArrowType::None;
  int bits = 0;  ///< of a number
  bool is_signed = true;
};

/// A column of an Arrow file, and where its pieces are in a batch of rows.
struct ArrowField {
  TableField field;
  ArrowLayout values;
  bool has_dictionary = false;
  std::int64_t dictionary = 0;  ///< the dictionary's number
  ArrowLayout places;           ///< of values in the dictionary
  std::size_t node = 0, buffer = 0;
  std::size_t views_before = 0;  ///< columns before it whose number of buffers the batch tells
};

struct ArrowSchema {
  std::vector<ArrowField> fields;
  std::vector<std::pair<std::string, std::string>> texts;  ///< metadata of whoever wrote the file
};

/// @param schema  the table Schema of Arrow's Schema.fbs. @throws TableFault  if it is damaged, or for hosts that are
/// big-endian
ArrowSchema read_arrow_schema_message(const FlatTable& schema);

}  // namespace lockstep
