#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep {

/// Finds the next of three bytes in a text, 64 bytes at a time: the inner loop of splitting files into fields.
class ByteScan {
 public:
  ByteScan(std::string_view text, char a, char b, char c) : text_(text), a_(a), b_(b), c_(c) { look_at(0); }

  /// Goes on at `from`, which may lie before or behind.
  void seek(std::size_t from) {
    if (from < block_ || from - block_ >= kBlock) {
      look_at(std::min(from, text_.size()));
    } else {
      left_ = found_ & ~std::uint64_t{0} << (from - block_);
    }
  }

  /// The position of the next of the bytes; the text's size if there is none.
  std::size_t next() {
    while (left_ == 0) {
      if (text_.size() - block_ <= kBlock) return text_.size();
      look_at(block_ + kBlock);
    }
    const std::size_t at = block_ + static_cast<std::size_t>(__builtin_ctzll(left_));
    left_ &= left_ - 1;
    return at;
  }

 private:
  static constexpr std::size_t kBlock = 64;

  void look_at(std::size_t block) {
    block_ = block;
    const std::size_t left = text_.size() - block;
    if (left >= kBlock) {
      found_ = match(text_.data() + block);
    } else {
      std::array<char, kBlock> tail{};
      std::copy_n(text_.data() + block, left, tail.data());
      found_ = match(tail.data()) & ~(~std::uint64_t{0} << left);
    }
    left_ = found_;
  }

#if defined(__SSE2__)
  std::uint64_t match(const char* bytes) const {
    const __m128i a = _mm_set1_epi8(a_);
    const __m128i b = _mm_set1_epi8(b_);
    const __m128i c = _mm_set1_epi8(c_);
    std::uint64_t found = 0;
    for (int i = 0; i < 4; ++i) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i);
      const __m128i hits =
          _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(part, a), _mm_cmpeq_epi8(part, b)), _mm_cmpeq_epi8(part, c));
      found |= static_cast<std::uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(hits))) << (16 * i);
    }
    return found;
  }
#else
  std::uint64_t match(const char* bytes) const {
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      found |= static_cast<std::uint64_t>(bytes[i] == a_ || bytes[i] == b_ || bytes[i] == c_) << i;
    }
    return found;
  }
#endif

  std::string_view text_;
  char a_, b_, c_;
  std::size_t block_ = 0;    // where the bytes that were looked at last begin,
  std::uint64_t found_ = 0;  // which of them matched,
  std::uint64_t left_ = 0;   // and which of these lie ahead
};

}  // namespace lockstep
