#include "lockstep/data/text/encoders/word_cache.h"

#include <algorithm>

namespace lockstep::text {
namespace {

std::uint64_t hash_bytes(std::string_view word) {
  std::uint64_t hash = word.size() * 0x9E3779B97F4A7C15u;
  const char* data = word.data();
  std::size_t left = word.size();
  while (left != 0) {
    std::uint64_t part = 0;
    const std::size_t take = std::min<std::size_t>(left, 8);
    std::memcpy(&part, data, take);
    hash = (hash ^ part) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
    data += take;
    left -= take;
  }
  return hash;
}

}  // namespace

void WordCache::put(const ShortKey& key, const TokenId* ids, std::uint32_t count) {
  if (count > kMostIds) return;
  if (count > kInlineIds && arena_.size() + count > kArenaIds) start_arena_anew();
  Pair& pair = short_[pair_index(key)];
  ShortEntry& entry = pair.entries[0];
  pair.entries[1] = entry;
  entry.low = key.low;
  entry.high = key.high;
  entry.length = key.length | (count << 8);
  if (count <= kInlineIds) {
    std::copy(ids, ids + count, entry.ids);
  } else {
    entry.ids[0] = static_cast<TokenId>(arena_.size());
    arena_.insert(arena_.end(), ids, ids + count);
  }
}

WordCache::Ids WordCache::find_long(std::string_view word) const {
  const std::uint64_t hash = hash_bytes(word);
  const LongEntry& entry = long_[hash % kLongEntries];
  if (entry.hash != hash || entry.length != word.size()) return {nullptr, 0};
  if (std::memcmp(long_bytes_.data() + entry.bytes_at, word.data(), word.size()) != 0) return {nullptr, 0};
  return {arena_.data() + entry.ids_at, entry.count};
}

void WordCache::put_long(std::string_view word, const TokenId* ids, std::uint32_t count) {
  if (count > kMostIds || word.size() > kLongestBytes) return;
  if (arena_.size() + count > kArenaIds || long_bytes_.size() + word.size() > kArenaBytes) start_arena_anew();
  const std::uint64_t hash = hash_bytes(word);
  LongEntry& entry = long_[hash % kLongEntries];
  entry.hash = hash;
  entry.bytes_at = static_cast<std::uint32_t>(long_bytes_.size());
  entry.ids_at = static_cast<std::uint32_t>(arena_.size());
  entry.length = static_cast<std::uint16_t>(word.size());
  entry.count = static_cast<std::uint16_t>(count);
  long_bytes_.insert(long_bytes_.end(), word.begin(), word.end());
  arena_.insert(arena_.end(), ids, ids + count);
}

void WordCache::start_arena_anew() {
  arena_.clear();
  long_bytes_.clear();
  std::fill(long_.begin(), long_.end(), LongEntry{});
  for (Pair& pair : short_) {
    for (ShortEntry& entry : pair.entries) {
      if (!entry.is_inline()) entry.length = 0;
    }
  }
}

}  // namespace lockstep::text
