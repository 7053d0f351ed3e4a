#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// The characters that separate fields, apart from line ends.
struct CsvMarks {
  char delimiter;
  char quote;
  bool has_quote;  ///< false: quotes are plain characters
};

/// The positions in 64 bytes that end a field, one bit each, the first byte lowest.
struct CsvBlock {
  std::uint64_t ends;   ///< delimiters and line ends
  std::uint64_t stops;  ///< those of `ends` that are line ends, or delimiters followed by a quote
};

/// Finds delimiters and line ends in a text, 64 bytes at a time: the inner loop of splitting files into fields. Looks
/// ahead by a kilobyte at once, with the widest instructions of the processor.
class CsvScan {
 public:
  static constexpr std::size_t kBlockBytes = 64;

  CsvScan(std::string_view text, const CsvMarks& marks) : text_(text), marks_(marks) {}

  /// The block that contains `position`, which must be in the text; a block begins at a multiple of 64. Bits past the
  /// end of the text are 0.
  const CsvBlock& block_at(std::size_t position) {
    if (position - first_ >= known_) look_ahead(position);
    return blocks_[(position - first_) / kBlockBytes];
  }

 private:
  static constexpr std::size_t kBlocks = 16;

  void look_ahead(std::size_t position);

  std::string_view text_;
  CsvMarks marks_;
  std::size_t first_ = 0;  // start of the first block in blocks_
  std::size_t known_ = 0;  // bytes that blocks_ describe
  std::array<CsvBlock, kBlocks> blocks_;
};

}  // namespace lockstep
