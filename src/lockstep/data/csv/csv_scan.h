#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// The characters that part a text into fields, beside line ends.
struct CsvMarks {
  char delimiter;
  char quote;
  bool has_quote;  ///< false: quotes are plain characters
};

/// Where 64 bytes hold what ends a field, one bit each, the first byte lowest.
struct CsvBlock {
  std::uint64_t ends;   ///< delimiters and line ends
  std::uint64_t stops;  ///< of these the line ends, and the delimiters that a quote follows
};

/// Finds delimiters and line ends in a text, 64 bytes at a time: the inner loop of splitting files into fields. Looks
/// ahead by a kilobyte at once, in the widest instructions that the processor has.
class CsvScan {
 public:
  static constexpr std::size_t kBlockBytes = 64;

  CsvScan(std::string_view text, const CsvMarks& marks) : text_(text), marks_(marks) {}

  /// The block that holds `position`, which lies in the text; it begins at a multiple of 64. Bits past the end of the
  /// text are 0.
  const CsvBlock& block_at(std::size_t position) {
    if (position - first_ >= known_) look_ahead(position);
    return blocks_[(position - first_) / kBlockBytes];
  }

 private:
  static constexpr std::size_t kBlocks = 16;

  void look_ahead(std::size_t position);

  std::string_view text_;
  CsvMarks marks_;
  std::size_t first_ = 0;  // where the first of blocks_ begins
  std::size_t known_ = 0;  // bytes that blocks_ describe
  std::array<CsvBlock, kBlocks> blocks_;
};

}  // namespace lockstep
