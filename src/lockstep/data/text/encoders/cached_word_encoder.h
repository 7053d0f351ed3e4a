#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/unicode/ascii_block.h"

namespace lockstep::text {

/// Bytes after a block that must be readable, because the cache loads whole keys.
constexpr std::size_t kReadAhead = WordCache::kShortBytes;

/// Words in a block of 64 bytes, in order.
struct BlockWords {
  std::uint8_t begin[kBlockBytes];
  std::uint8_t length[kBlockBytes];
  int count = 0;

  void add(int at, int bytes) {
    begin[count] = static_cast<std::uint8_t>(at);
    length[count] = static_cast<std::uint8_t>(bytes);
    ++count;
  }
};

/// An encoder that splits text into words, encodes each independently of its neighbours, and caches the ids of each.
class CachedWordEncoder : public TextEncoder {
 protected:
  /// Fills `scratch.parts` with the tokens of a word.
  virtual void cut(std::string_view word, EncoderScratch& scratch) const = 0;

  /// Appends the ids of the word [begin, end) of `text`; with `kWords` also appends an entry for it to `scratch.words`.
  template <bool kWords>
  void append_word(std::string_view text, std::size_t begin, std::size_t end, EncoderScratch& scratch) const;

  /// Appends the words of the block at `at` in that way; `source` has the block's bytes too, with kReadAhead bytes
  /// after them.
  template <bool kWords>
  void append_block(std::string_view text, std::size_t at, const char* source, const BlockWords& words,
                    EncoderScratch& scratch) const;

 private:
  void append_ids_of(std::string_view word, EncoderScratch& scratch) const;
};

/// Whether the next character, or the one after a blank, is not ASCII: then blocks of ASCII are not worth trying.
inline bool goes_on_beyond_ascii(std::string_view text, std::size_t at) {
  if (at + 1 < text.size() && text[at] == ' ') ++at;
  return at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80;
}

/// The last block of a text, with room to read ahead.
class TailBlock {
 public:
  /// The 64 bytes at `at`: in the text itself, or, if it ends too soon, in a copy filled up with `fill`.
  const char* at(std::string_view text, std::size_t at, char fill);

 private:
  char bytes_[kBlockBytes + kReadAhead];
};

}  // namespace lockstep::text
