#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A node of the tree of columns, in Parquet's terms; -1: not given. A node is followed by its children.
struct ParquetNode {
  std::string name;
  std::int64_t physical_type = -1;
  std::int64_t type_length = 0;
  std::int64_t repetition = 0;  ///< 0: once, 1: once or null, 2: any number of times
  std::int64_t children = 0;
  std::int64_t converted_type = -1;
  std::int64_t logical_type = -1;  ///< the field's number in the union LogicalType
  std::int64_t precision = 0, scale = 0;
  std::int64_t bits = 0;  ///< of a logical integer
  bool is_signed = true;
  std::int64_t unit = 0;  ///< of a logical time: 1: milliseconds, 2: microseconds, 3: nanoseconds
  bool is_utc = false;
};

/// The pages of one column in one group of rows.
struct ParquetChunk {
  std::uint64_t first_page = 0;  ///< the dictionary, if there is one
  std::int64_t values = 0;       ///< nulls included
  std::int64_t codec = 0;
  std::int64_t physical_type = -1;
  bool is_encrypted = false, is_elsewhere = false;
};

struct ParquetRowGroup {
  std::int64_t rows = 0;
  std::vector<ParquetChunk> chunks;  ///< in the order of the tree's leaves
};

/// What the end of a Parquet file says of it: github.com/apache/parquet-format/blob/master/README.md
struct ParquetMetadata {
  std::int64_t rows = 0;
  std::vector<ParquetNode> nodes;  ///< the root first
  std::vector<ParquetRowGroup> groups;
  std::vector<std::pair<std::string, std::string>> texts;  ///< metadata of whoever wrote the file
  std::string_view pages;                                  ///< the bytes of the file in front of its description
};

/// @throws TableFault  if the bytes are not a Parquet file, are cut, encrypted or damaged, or announce many more rows
/// than their number makes likely
ParquetMetadata read_parquet_metadata(std::string_view file);

/// The most rows that a file of columns may announce: each is held with 12 bytes.
std::int64_t most_rows(std::size_t file_bytes);

}  // namespace lockstep
