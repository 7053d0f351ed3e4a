#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/data/tables/page_codec.h"
#include "lockstep/data/tables/parquet/parquet_values.h"

namespace lockstep {

/// A page of a Parquet file: its header, and its bytes.
struct ParquetPage {
  enum class Kind { Data, Index, Dictionary, DataV2 };
  Kind kind = Kind::Data;
  std::size_t size = 0;     ///< of its content, with levels
  std::int64_t values = 0;  ///< nulls included
  std::int64_t encoding = 0;
  std::int64_t level_encoding = static_cast<int>(ParquetEncoding::RunLengths);
  std::size_t level_bytes = 0, repetition_bytes = 0;  ///< of DataV2
  bool is_compressed = true;                          ///< of DataV2
  std::optional<std::uint32_t> checksum{};
  std::string_view bytes{};  ///< as they are in the file
  std::size_t end = 0;       ///< where the next page begins

  bool holds_rows() const { return kind == Kind::Data || kind == Kind::DataV2; }
};

/// The page that begins at `begin`. @throws TableFault  if none does
ParquetPage read_parquet_page(std::string_view file, std::uint64_t begin);

/// The page's content, checked by its checksum if it has one: for DataV2 without the levels.
KeptBytes content_of(const ParquetPage& page, PageCodec codec);

/// Whether each value is there (1) or null (0), and what follows in `content`, which becomes shorter for Data.
std::vector<std::uint32_t> validity_of(const ParquetPage& page, KeptBytes& content);

}  // namespace lockstep
