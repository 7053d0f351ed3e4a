#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/data/tables/parquet/parquet_page.h"
#include "lockstep/data/tables/parquet/parquet_schema.h"
#include "lockstep/data/tables/table_column.h"

namespace lockstep {

/// A column of a Parquet file. Its blocks are the file's pages.
class ParquetColumn : public TableColumn {
 public:
  /// Finds the pages, without reading their values.
  /// @param metadata, path  must outlive it
  /// @throws Error  if they are damaged, or compressed in a way that is not read
  ParquetColumn(const ParquetMetadata& metadata, const ParquetField& field, const std::string& path);

  std::size_t block_of(std::int64_t row) const override;
  std::int64_t first_row(std::size_t block) const override { return pages_[block].first_row; }
  ColumnBlock decode(std::size_t block) const override;

 private:
  struct Page {
    std::uint64_t begin;
    std::int64_t first_row;
    std::size_t chunk;
  };
  struct Dictionary {
    std::uint64_t begin = 0;
    bool is_there = false;
    mutable std::weak_ptr<const ValueList> values;  // for as long as a block is in use that has it
  };

  void find_pages();
  void find_pages_of(const ParquetRowGroup& group);
  ColumnBlock decode_page(const Page& page) const;
  std::shared_ptr<const ValueList> dictionary(std::size_t chunk) const;
  PageCodec codec(std::size_t chunk) const;

  const ParquetMetadata& metadata_;
  const std::string& path_;
  ParquetField field_;
  std::vector<Page> pages_;
  std::vector<Dictionary> dictionaries_;  // of each group of rows
  std::int64_t rows_ = 0;
  mutable std::mutex mutex_;  // of dictionaries_
};

}  // namespace lockstep
