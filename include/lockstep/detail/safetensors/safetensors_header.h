#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;                ///< as written in the file: "F32", "BF16", "I64"…
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::uint64_t begin_byte = 0;     ///< from the start of the data section
  std::uint64_t end_byte = 0;

  std::uint64_t bytes() const { return end_byte - begin_byte; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< the strings under "__metadata__"
  std::uint64_t data_offset = 0;                ///< where the data section starts in the file
};

/// Longest header that is read, as in Hugging Face's reader.
constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Reads and checks the header of a safetensors file: 8 bytes of little-endian length, JSON, data.
///
/// Nothing in the file is trusted. Bad lengths, deep nesting and duplicate names are refused while the text is read.
/// After that, every tensor must hold exactly the bytes that its shape requires, and together the tensors must cover
/// the data without hole or overlap. Accepts and refuses what Hugging Face's reader does, and also refuses names given
/// twice, dimensions above 2^63 - 1 and values nested deeper than 32. Memory is at most a small multiple of the
/// header's size.
///
/// @param file  the whole file, or its beginning (8 bytes and the header are read)
/// @param file_bytes  size of the whole file
/// @param path  named in errors
/// @throws Error  with the reason and the tensor's name
SafetensorsHeader parse_safetensors_header(std::string_view file, std::uint64_t file_bytes, const std::string& path);

/// Bits of one element, or 0 for a name that is not in the format.
unsigned safetensors_dtype_bits(std::string_view dtype);

}  // namespace lockstep
