#include "lockstep/data/files/zstd.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/data/files/inflate_limit.h"

namespace lockstep {

bool is_zstd(std::string_view bytes) { return bytes.substr(0, 4) == "\x28\xb5\x2f\xfd"; }

std::string unzstd(std::string_view compressed, const std::string& path, std::size_t most_bytes) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> stream(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!stream) throw std::bad_alloc();
  ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
  std::string content;
  std::size_t size = 0, wanted = 1;  // 0: a frame has ended
  while (in.pos < in.size || wanted != 0) {
    if (size == content.size()) content.resize(std::min(std::max<std::size_t>(1 << 16, size * 2), most_bytes + 1));
    ZSTD_outBuffer out{content.data(), content.size(), size};
    const std::size_t read_before = in.pos;
    wanted = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) {
      throw Error(fmt::format("the zstd file is damaged: {}", ZSTD_getErrorName(wanted)), path, "fetch the file again");
    }
    const bool is_stuck = out.pos == size && in.pos == read_before;
    size = out.pos;
    if (size > most_bytes) {
      throw Error(
          fmt::format("the zstd file of {} bytes holds more than {} bytes", compressed.size(), most_bytes), path,
          fmt::format("decompress it to a file first: plain files are read without loading them whole; or raise "
                      "{}, if it is to be that large",
                      kInflateLimitVariable));
    }
    if (is_stuck && in.pos == in.size) {
      throw Error("the zstd file ends in the middle of its content", path, "the file is truncated: fetch it again");
    }
  }
  content.resize(size);
  return content;
}

}  // namespace lockstep
