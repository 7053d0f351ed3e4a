#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// Remembers the ids of words that were seen, by their raw bytes: natural text repeats its words, and a lookup here
/// takes a few nanoseconds. The content changes the speed, never the ids. Bounded: about 3 MiB. One thread at a time.
///
/// Words of up to 16 bytes are in a table of pairs of entries; a pair is one cache line, in which a new word replaces
/// the older one. An entry holds up to three ids. Longer words and longer lists are in an arena, which is cleared when
/// it is full.
class WordCache {
 public:
  static constexpr std::size_t kShortBytes = 16;
  static constexpr std::size_t kLongestBytes = 256;
  static constexpr std::uint32_t kInlineIds = 3;

  /// Up to 16 bytes as two numbers, with zeros after the end.
  struct ShortKey {
    std::uint64_t low;
    std::uint64_t high;
    std::uint32_t length;
  };

  struct ShortEntry {
    std::uint64_t low;
    std::uint64_t high;
    std::uint32_t length;  ///< 0: empty
    TokenId ids[kInlineIds];

    bool holds(const ShortKey& key) const {
      return ((low ^ key.low) | (high ^ key.high) | ((length & 0xFFu) ^ key.length)) == 0;
    }
    std::uint32_t count() const { return length >> 8; }
    bool is_inline() const { return length >> 8 <= kInlineIds; }
  };

  struct Ids {
    const TokenId* data;
    std::uint32_t count;
  };

  WordCache() : short_(kPairs), long_(kLongEntries) {}

  /// The key of the `length` bytes at `data`, of which 16 must be readable. No entry has the key of more than 16 bytes.
  static ShortKey load_key(const char* data, std::uint32_t length) {
    // As many ones as the word has bytes, followed by zeros.
    static constexpr std::uint64_t kOnes = ~std::uint64_t{0};
    static constexpr std::uint64_t kMasks[4] = {kOnes, kOnes, 0, 0};
    const std::size_t skip = kShortBytes - std::min<std::size_t>(length, kShortBytes);
    const char* masks = reinterpret_cast<const char*>(kMasks) + skip;
    std::uint64_t low_mask;
    std::uint64_t high_mask;
    std::memcpy(&low_mask, masks, 8);
    std::memcpy(&high_mask, masks + 8, 8);
    ShortKey key;
    std::memcpy(&key.low, data, 8);
    std::memcpy(&key.high, data + 8, 8);
    key.low &= low_mask;
    key.high &= high_mask;
    key.length = length;
    return key;
  }

  void prefetch(const ShortKey& key) const { __builtin_prefetch(&short_[pair_index(key)]); }

  /// The entry that contains `key`, if the table contains it at all: check with `holds`.
  const ShortEntry& slot(const ShortKey& key) const {
    const Pair& pair = short_[pair_index(key)];
    return pair.entries[pair.entries[0].holds(key) ? 0 : 1];
  }

  /// Ids of the entry whose count is above kInlineIds.
  const TokenId* arena_ids(const ShortEntry& entry) const { return arena_.data() + entry.ids[0]; }

  void put(const ShortKey& key, const TokenId* ids, std::uint32_t count);

  /// Ids of a word of 17 to 256 bytes; `data` is null if the word is not known.
  Ids find_long(std::string_view word) const;
  void put_long(std::string_view word, const TokenId* ids, std::uint32_t count);

 private:
  static constexpr int kPairBits = 15;
  static constexpr std::size_t kPairs = std::size_t{1} << kPairBits;
  static constexpr std::size_t kLongEntries = std::size_t{1} << 12;
  static constexpr std::size_t kArenaIds = std::size_t{1} << 17;
  static constexpr std::size_t kArenaBytes = std::size_t{1} << 18;
  static constexpr std::uint32_t kMostIds = 256;

  struct alignas(64) Pair {
    ShortEntry entries[2];  ///< the newer entry first
  };

  struct LongEntry {
    std::uint64_t hash;
    std::uint32_t bytes_at;
    std::uint32_t ids_at;
    std::uint16_t length;  ///< 0: empty
    std::uint16_t count;
  };

  static std::size_t pair_index(const ShortKey& key) {
    // Multiplying by odd constants and using the top bits spreads words that differ in one letter.
    const std::uint64_t mixed = (key.low ^ (key.high * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
    return static_cast<std::size_t>((mixed ^ (mixed << 17)) >> (64 - kPairBits));
  }

  void start_arena_anew();

  std::vector<Pair> short_;
  std::vector<LongEntry> long_;
  std::vector<TokenId> arena_;
  std::vector<char> long_bytes_;
};

}  // namespace lockstep::text
