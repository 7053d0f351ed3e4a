#pragma once

#include <zstd.h>

#include <string>
#include <string_view>

namespace lockstep {

/// `content` as the bytes of a zstd file.
inline std::string zstd_bytes(std::string_view content) {
  std::string out(ZSTD_compressBound(content.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3));
  return out;
}

}  // namespace lockstep
