#include "lockstep/data/tables/page_codec.h"

#include <fmt/format.h>
#include <snappy.h>
#include <zstd.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/data/files/gzip.h"
#include "lockstep/data/files/inflate_limit.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 8> kCodecNames{"none", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"};

// Whether the content is exactly as long as announced.
bool inflate_snappy(std::string_view bytes, std::string& content) {
  std::size_t size = 0;
  return snappy::GetUncompressedLength(bytes.data(), bytes.size(), &size) && size == content.size() &&
         snappy::RawUncompress(bytes.data(), bytes.size(), content.data());
}

bool inflate_gzip(std::string_view bytes, std::string& content) {
  try {
    GzipReader reader(bytes, "page");
    char more = 0;
    return reader.read(content.data(), content.size()) == content.size() && reader.read(&more, 1) == 0;
  } catch (const Error&) {
    return false;
  }
}

bool inflate_zstd(std::string_view bytes, std::string& content) {
  return ZSTD_decompress(content.data(), content.size(), bytes.data(), bytes.size()) == content.size();
}

}  // namespace

void require_codec(std::int64_t codec) {
  if (codec < 0 || codec >= static_cast<std::int64_t>(kCodecNames.size())) {
    throw TableFault(fmt::format("it is compressed by codec {}, which is not known", codec));
  }
  const auto known = static_cast<PageCodec>(codec);
  if (known == PageCodec::Plain || known == PageCodec::Snappy || known == PageCodec::Gzip || known == PageCodec::Zstd) {
    return;
  }
  throw TableFault(
      fmt::format("it is compressed by {}, which is not read", kCodecNames[static_cast<std::size_t>(codec)]),
      "write it again with SNAPPY, GZIP or ZSTD, in Python: "
      "pandas.read_parquet(FILE).to_parquet(FILE, compression=\"zstd\")");
}

std::shared_ptr<const std::string> inflate_page(PageCodec codec, std::string_view bytes, std::size_t size) {
  const std::size_t most = most_inflated_bytes(bytes.size());
  if (size > most) {
    throw TableFault(fmt::format("a piece of {} bytes holds {} bytes, more than {}", bytes.size(), size, most),
                     fmt::format("raise {}, if it is to be that large", kInflateLimitVariable));
  }
  std::string content(size, '\0');
  const bool is_whole = size == 0 || (codec == PageCodec::Snappy ? inflate_snappy(bytes, content)
                                      : codec == PageCodec::Gzip ? inflate_gzip(bytes, content)
                                                                 : inflate_zstd(bytes, content));
  if (!is_whole) {
    throw TableFault(fmt::format("a piece compressed by {} is damaged", kCodecNames[static_cast<std::size_t>(codec)]));
  }
  return std::make_shared<const std::string>(std::move(content));
}

}  // namespace lockstep
