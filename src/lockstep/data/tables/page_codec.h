#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// How the pages of a column are compressed; the numbers are those of Parquet's files.
enum class PageCodec { Plain, Snappy, Gzip, Lzo, Brotli, Lz4, Zstd, Lz4Raw };

/// @throws TableFault  with the codec's name, if it is not read
void require_codec(std::int64_t codec);

/// The content of compressed bytes, which must have `size` bytes: at most what most_inflated_bytes allows. The codec is
/// not Plain. @throws TableFault  if the bytes are damaged, or too large
std::shared_ptr<const std::string> inflate_page(PageCodec codec, std::string_view bytes, std::size_t size);

}  // namespace lockstep
