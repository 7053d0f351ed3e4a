// The content of a gzip file: zlib piece by piece, as GzipReader reads it, and libdeflate at once.
#include <libdeflate.h>

#include "bench/libraries/turns.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/gzip.h"

int main(int, char** argv) {
  const lockstep::FileBytes file = lockstep::FileBytes::open_raw(argv[1]);
  const std::string_view compressed = file.view();
  const std::size_t size = lockstep::gunzip(compressed, argv[1], std::size_t{1} << 30).size();
  std::string content(size + 1, '\0');
  const auto pieces = [&] { return lockstep::GzipReader(compressed, argv[1]).read(content.data(), content.size()); };
  const auto at_once = [&] {
    libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
    std::size_t bytes = 0;
    libdeflate_gzip_decompress(decompressor, compressed.data(), compressed.size(), content.data(), size, &bytes);
    libdeflate_free_decompressor(decompressor);
    return bytes;
  };
  lockstep::print_turns("gzip", size, {{"GzipReader", pieces}, {"libdeflate", at_once}});
}
