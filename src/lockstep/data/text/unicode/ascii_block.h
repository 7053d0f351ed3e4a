#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep::text {

/// Bytes that one AsciiBlock describes.
constexpr int kBlockBytes = 64;

/// The kinds of 64 bytes: bit i describes byte i. Finding a word takes a few instructions instead of a mispredicted
/// branch per byte.
struct AsciiBlock {
  std::uint64_t letter;      ///< A-Z a-z
  std::uint64_t digit;       ///< 0-9
  std::uint64_t blank;       ///< U+0020
  std::uint64_t line_space;  ///< \t \n \r
  std::uint64_t page_space;  ///< \v \f
  std::uint64_t control;     ///< below U+0020, and U+007F; includes line_space and page_space
  std::uint64_t apostrophe;  ///< '
  std::uint64_t high;        ///< above U+007F: part of a longer sequence
};

#if defined(__SSE2__)

namespace ascii_block_detail {

inline std::uint64_t mask_of(__m128i flags) { return static_cast<std::uint32_t>(_mm_movemask_epi8(flags)); }

/// Bytes in [low, low + count), taken as unsigned.
inline __m128i in_range(__m128i bytes, unsigned char low, unsigned char count) {
  const __m128i shifted = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(0x80 - low)));
  return _mm_cmplt_epi8(shifted, _mm_set1_epi8(static_cast<char>(0x80 + count)));
}

inline __m128i equal(__m128i bytes, char value) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(value)); }

}  // namespace ascii_block_detail

/// Describes the 64 bytes at `data`.
inline AsciiBlock classify_block(const char* data) {
  using namespace ascii_block_detail;
  AsciiBlock block = {};
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i);
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i page = in_range(bytes, 0x0B, 2);
    const __m128i line = _mm_andnot_si128(page, in_range(bytes, 0x09, 5));
    const __m128i control = _mm_or_si128(in_range(bytes, 0, 0x20), equal(bytes, 0x7F));
    block.letter |= mask_of(in_range(folded, 'a', 26)) << (16 * i);
    block.digit |= mask_of(in_range(bytes, '0', 10)) << (16 * i);
    block.blank |= mask_of(equal(bytes, ' ')) << (16 * i);
    block.line_space |= mask_of(line) << (16 * i);
    block.page_space |= mask_of(page) << (16 * i);
    block.control |= mask_of(control) << (16 * i);
    block.apostrophe |= mask_of(equal(bytes, '\'')) << (16 * i);
    block.high |= mask_of(bytes) << (16 * i);
  }
  return block;
}

#else

inline AsciiBlock classify_block(const char* data) {
  AsciiBlock block = {};
  for (int i = 0; i < kBlockBytes; ++i) {
    const auto byte = static_cast<unsigned char>(data[i]);
    const std::uint64_t bit = std::uint64_t{1} << i;
    const auto folded = static_cast<unsigned char>(byte | 0x20);
    if (folded >= 'a' && folded <= 'z') block.letter |= bit;
    if (byte >= '0' && byte <= '9') block.digit |= bit;
    if (byte == ' ') block.blank |= bit;
    if (byte == '\t' || byte == '\n' || byte == '\r') block.line_space |= bit;
    if (byte == 0x0B || byte == 0x0C) block.page_space |= bit;
    if (byte < 0x20 || byte == 0x7F) block.control |= bit;
    if (byte == '\'') block.apostrophe |= bit;
    if (byte >= 0x80) block.high |= bit;
  }
  return block;
}

#endif

/// Position of the lowest set bit of `bits`, which must not be 0.
inline int lowest_bit(std::uint64_t bits) { return __builtin_ctzll(bits); }

/// Position of the highest set bit of `bits`, which must not be 0.
inline int highest_bit(std::uint64_t bits) { return 63 - __builtin_clzll(bits); }

/// Bits above position `position` (0 to 63).
inline std::uint64_t bits_above(int position) { return ~std::uint64_t{0} << position << 1; }

/// Bits below position `position` (0 to 63).
inline std::uint64_t bits_below(int position) { return (std::uint64_t{1} << position) - 1; }

}  // namespace lockstep::text
