#include "lockstep/data/text/encoders/cached_word_encoder.h"

#include <algorithm>
#include <cstring>

namespace lockstep::text {
namespace {

/// A word in a block has at most as many ids as bytes; an entry of the cache is copied as a whole.
constexpr std::size_t kRoomPerBlock = kBlockBytes + WordCache::kInlineIds;

}  // namespace

const char* TailBlock::at(std::string_view text, std::size_t at, char fill) {
  const std::size_t left = text.size() - at;
  if (left >= sizeof(bytes_)) return text.data() + at;
  std::memset(bytes_, fill, sizeof(bytes_));
  std::memcpy(bytes_, text.data() + at, std::min<std::size_t>(left, kBlockBytes));
  return bytes_;
}

template <bool kWords>
void CachedWordEncoder::append_block(std::string_view text, std::size_t at, const char* source, const BlockWords& words,
                                     EncoderScratch& scratch) const {
  // All keys first, so that the look-ups in the cache overlap instead of waiting for each other.
  WordCache::ShortKey keys[kBlockBytes];
  for (int i = 0; i < words.count; ++i) {
    keys[i] = WordCache::load_key(source + words.begin[i], words.length[i]);
    scratch.cache.prefetch(keys[i]);
  }
  TokenId* out = scratch.ids.reserve(kRoomPerBlock);
  for (int i = 0; i < words.count; ++i) {
    const std::size_t begin = at + words.begin[i];
    const std::size_t end = begin + words.length[i];
    const WordCache::ShortEntry& entry = scratch.cache.slot(keys[i]);
    if (entry.holds(keys[i]) && entry.is_inline()) {
      std::memcpy(out, entry.ids, sizeof(entry.ids));
      out += entry.count();
      if (kWords) {
        scratch.words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), entry.count()});
      }
      continue;
    }
    scratch.ids.set_end(out);
    append_word<kWords>(text, begin, end, scratch);
    out = scratch.ids.reserve(kRoomPerBlock);
  }
  scratch.ids.set_end(out);
}

template <bool kWords>
void CachedWordEncoder::append_word(std::string_view text, std::size_t begin, std::size_t end,
                                    EncoderScratch& scratch) const {
  const std::size_t before = scratch.ids.size();
  append_ids_of(text.substr(begin, end - begin), scratch);
  if (kWords) {
    scratch.words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                             static_cast<std::uint32_t>(scratch.ids.size() - before)});
  }
}

void CachedWordEncoder::append_ids_of(std::string_view word, EncoderScratch& scratch) const {
  const std::size_t before = scratch.ids.size();
  const auto cut_word = [&] {
    scratch.parts.clear();
    cut(word, scratch);
    TokenId* out = scratch.ids.reserve(scratch.parts.size());
    for (const WordPart& part : scratch.parts) *out++ = part.id;
    scratch.ids.set_end(out);
    return static_cast<std::uint32_t>(scratch.parts.size());
  };
  if (word.size() <= WordCache::kShortBytes) {
    char copy[kReadAhead] = {};
    std::memcpy(copy, word.data(), word.size());
    const WordCache::ShortKey key = WordCache::load_key(copy, static_cast<std::uint32_t>(word.size()));
    const WordCache::ShortEntry& entry = scratch.cache.slot(key);
    if (entry.holds(key)) {
      scratch.ids.append(entry.is_inline() ? entry.ids : scratch.cache.arena_ids(entry), entry.count());
    } else {
      const std::uint32_t count = cut_word();
      scratch.cache.put(key, scratch.ids.data() + before, count);
    }
  } else if (word.size() <= WordCache::kLongestBytes) {
    const WordCache::Ids known = scratch.cache.find_long(word);
    if (known.data != nullptr) {
      scratch.ids.append(known.data, known.count);
    } else {
      const std::uint32_t count = cut_word();
      scratch.cache.put_long(word, scratch.ids.data() + before, count);
    }
  } else {
    cut_word();
  }
}

template void CachedWordEncoder::append_block<false>(std::string_view, std::size_t, const char*, const BlockWords&,
                                                     EncoderScratch&) const;
template void CachedWordEncoder::append_block<true>(std::string_view, std::size_t, const char*, const BlockWords&,
                                                    EncoderScratch&) const;
template void CachedWordEncoder::append_word<false>(std::string_view, std::size_t, std::size_t, EncoderScratch&) const;
template void CachedWordEncoder::append_word<true>(std::string_view, std::size_t, std::size_t, EncoderScratch&) const;

}  // namespace lockstep::text
