#include "lockstep/data/text/byte_level_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/base/log.h"
#include "lockstep/data/text/ascii_block.h"
#include "lockstep/data/text/gpt2_pattern.h"
#include "lockstep/data/text/utf8.h"

namespace lockstep::text {
namespace {

/// The longest key that the cache loads from memory, which must be readable behind a word.
constexpr std::size_t kReadAhead = WordCache::kShortBytes;
/// A word in a block gives at most as many ids as it has bytes; an entry of the cache is copied whole.
constexpr std::size_t kRoomPerBlock = kBlockBytes + WordCache::kInlineIds;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Whether the next character, or the one behind a blank, is not ASCII: then blocks of ASCII are not worth trying.
bool goes_on_beyond_ascii(std::string_view text, std::size_t at) {
  if (at + 1 < text.size() && text[at] == ' ') ++at;
  return at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80;
}

/// Where words start among 64 bytes of ASCII, the first of which starts one: bit i for byte i.
/// Bits are right up to the first byte that is not ASCII; a start at the last byte may be missing.
std::uint64_t word_starts(const AsciiBlock& block, std::uint64_t valid) {
  const std::uint64_t space = (block.blank | block.line_space | block.page_space) & valid;
  const std::uint64_t word = ~space & ~block.high & valid;
  const std::uint64_t letter = block.letter;
  const std::uint64_t digit = block.digit;
  const std::uint64_t other = word & ~(letter | digit);
  const std::uint64_t run_starts = (letter & ~(letter << 1)) | (digit & ~(digit << 1)) | (other & ~(other << 1));
  const std::uint64_t after_blank = run_starts & (block.blank << 1);
  const std::uint64_t space_starts = space & ~(space << 1);
  const std::uint64_t last_spaces = space & (word >> 1);
  return (run_starts & ~after_blank) | space_starts | last_spaces;
}

class ByteLevelEncoder final : public TextEncoder {
 public:
  ByteLevelEncoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const BytePairOptions& model,
                   const ByteLevelOptions& options)
      : model_(vocabulary, merges, model), options_(options) {
    if (model_.missing_bytes() > 0 && !model.unk_token) {
      log_warning("the vocabulary lacks {} of the 256 bytes and names no unknown token: they will vanish from texts",
                  model_.missing_bytes());
    }
  }

  void encode(std::string_view text, EncoderScratch& scratch) const override {
    if (needs_prefix(text)) {
      encode_raw<false>(with_prefix(text, scratch), scratch);
    } else {
      encode_raw<false>(text, scratch);
    }
  }

  void encode_with_spans(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const override;

 private:
  bool needs_prefix(std::string_view text) const {
    return options_.add_prefix_space && !text.empty() && text.front() != ' ';
  }
  static std::string_view with_prefix(std::string_view text, EncoderScratch& scratch) {
    scratch.bytes.assign(1, ' ');
    scratch.bytes.append(text);
    return scratch.bytes;
  }

  /// Appends the ids of `text`; `kWords`: and which words they are of, to `scratch.words`.
  template <bool kWords>
  void encode_raw(std::string_view text, EncoderScratch& scratch) const;
  /// Encodes ASCII from `at` on, which starts a word, and returns where it ended: the end, or a word that is long or
  /// touches other characters.
  template <bool kWords>
  std::size_t encode_ascii(std::string_view text, std::size_t at, EncoderScratch& scratch) const;
  /// Appends the ids of the word [begin, end), by the cache or by merging.
  template <bool kWords>
  void append_word(std::string_view text, std::size_t begin, std::size_t end, EncoderScratch& scratch) const;
  void cut_into_ids(std::string_view word, EncoderScratch& scratch) const;

  BytePairModel model_;
  ByteLevelOptions options_;
};

template <bool kWords>
void ByteLevelEncoder::encode_raw(std::string_view text, EncoderScratch& scratch) const {
  for (std::size_t at = 0; at < text.size();) {
    at = encode_ascii<kWords>(text, at, scratch);
    if (at == text.size()) break;
    do {
      const std::size_t end = gpt2_word_end(text, at);
      append_word<kWords>(text, at, end, scratch);
      at = end;
    } while (goes_on_beyond_ascii(text, at));
  }
}

/// Takes contractions into account: each is a word, and ends where no other would. Drops the starts behind one that the
/// block cuts off, unless the text `ends_here`.
void split_contractions(std::string_view source, std::uint64_t apostrophes, bool ends_here, std::uint64_t& starts) {
  // At a start, an apostrophe has no blank before it: with one, it belongs to a run of other characters.
  for (std::uint64_t left = apostrophes & starts; left != 0; left &= left - 1) {
    const int at = lowest_bit(left);
    if (static_cast<std::size_t>(at) + 4 > source.size() && !ends_here) {
      starts &= ~bits_above(at);
      return;
    }
    const std::size_t length = contraction_length(source, static_cast<std::size_t>(at));
    if (length == 0) continue;
    const int end = at + static_cast<int>(length);
    starts &= ~(bits_above(at) & bits_below(end));
    starts |= std::uint64_t{1} << end;
  }
}

template <bool kWords>
std::size_t ByteLevelEncoder::encode_ascii(std::string_view text, std::size_t at, EncoderScratch& scratch) const {
  std::array<char, kBlockBytes + kReadAhead> tail;
  while (at < text.size()) {
    const char* source = text.data() + at;
    const std::size_t left = text.size() - at;
    if (left < tail.size()) {
      tail.fill('\0');
      std::memcpy(tail.data(), source, std::min<std::size_t>(left, kBlockBytes));
      source = tail.data();
    }
    const bool ends_here = left < kBlockBytes;
    const std::uint64_t valid = ends_here ? bits_below(static_cast<int>(left)) : ~std::uint64_t{0};
    const AsciiBlock block = classify_block(source);
    std::uint64_t starts = word_starts(block, valid);
    const std::uint64_t apostrophes = block.apostrophe & starts;
    if (apostrophes != 0) {
      split_contractions({source, std::min<std::size_t>(left, kBlockBytes)}, apostrophes, ends_here, starts);
    }
    const std::uint64_t high = block.high & valid;
    if (high != 0) starts &= ~bits_above(lowest_bit(high));
    if (high == 0 && ends_here) starts |= std::uint64_t{1} << left;

    // Each start ends the word before it; the last one starts the next block.
    TokenId* out = scratch.ids.reserve(kRoomPerBlock);
    while ((starts & (starts - 1)) != 0) {
      const int begin = lowest_bit(starts);
      starts &= starts - 1;
      const auto length = static_cast<std::uint32_t>(lowest_bit(starts) - begin);
      const std::size_t word_at = at + static_cast<std::size_t>(begin);
      if (length <= WordCache::kShortBytes) {
        const WordCache::ShortKey key = WordCache::load_key(source + begin, length);
        const WordCache::ShortEntry& entry = scratch.cache.slot(key);
        if (entry.holds(key) && entry.is_inline()) {
          std::memcpy(out, entry.ids, sizeof(entry.ids));
          out += entry.count();
          if (kWords) {
            const auto first = static_cast<std::uint32_t>(word_at);
            scratch.words.push_back({first, first + length, entry.count()});
          }
          continue;
        }
      }
      scratch.ids.set_end(out);
      append_word<kWords>(text, word_at, word_at + length, scratch);
      out = scratch.ids.reserve(kRoomPerBlock);
    }
    scratch.ids.set_end(out);
    const int done = starts != 0 ? lowest_bit(starts) : 0;
    at += static_cast<std::size_t>(done);
    if (done == 0 || high != 0) return at;
  }
  return at;
}

template <bool kWords>
void ByteLevelEncoder::append_word(std::string_view text, std::size_t begin, std::size_t end,
                                   EncoderScratch& scratch) const {
  const std::string_view word = text.substr(begin, end - begin);
  const std::size_t before = scratch.ids.size();
  if (word.size() <= WordCache::kShortBytes) {
    std::array<char, kReadAhead> copy = {};
    std::memcpy(copy.data(), word.data(), word.size());
    const WordCache::ShortKey key = WordCache::load_key(copy.data(), static_cast<std::uint32_t>(word.size()));
    const WordCache::ShortEntry& entry = scratch.cache.slot(key);
    if (entry.holds(key)) {
      scratch.ids.append(entry.is_inline() ? entry.ids : scratch.cache.arena_ids(entry), entry.count());
    } else {
      cut_into_ids(word, scratch);
      scratch.cache.put(key, scratch.ids.data() + before, static_cast<std::uint32_t>(scratch.parts.size()));
    }
  } else {
    const bool cached = word.size() <= WordCache::kLongestBytes;
    const WordCache::Ids known = cached ? scratch.cache.find_long(word) : WordCache::Ids{nullptr, 0};
    if (known.data != nullptr) {
      scratch.ids.append(known.data, known.count);
    } else {
      cut_into_ids(word, scratch);
      scratch.cache.put_long(word, scratch.ids.data() + before, static_cast<std::uint32_t>(scratch.parts.size()));
    }
  }
  if (kWords) {
    scratch.words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                             static_cast<std::uint32_t>(scratch.ids.size() - before)});
  }
}

void ByteLevelEncoder::cut_into_ids(std::string_view word, EncoderScratch& scratch) const {
  scratch.parts.clear();
  model_.cut(word, scratch.parts, scratch.merge_space);
  TokenId* out = scratch.ids.reserve(scratch.parts.size());
  for (const WordPart& part : scratch.parts) *out++ = part.id;
  scratch.ids.set_end(out);
}

void ByteLevelEncoder::encode_with_spans(std::string_view text, std::int32_t first_char,
                                         EncoderScratch& scratch) const {
  const bool prefixed = needs_prefix(text);
  if (prefixed) text = with_prefix(text, scratch);
  scratch.words.clear();
  encode_raw<true>(text, scratch);
  // The character that the byte before `at` belongs to. The prefix is traced to the character that it stands before.
  std::int32_t char_at = first_char - 1;
  std::int32_t prefix_chars = prefixed ? 1 : 0;
  std::size_t counted = 0;
  const auto char_of = [&](std::size_t byte) {
    for (; counted <= byte; ++counted) char_at += !is_continuation(text[counted]);
    return std::max(char_at - prefix_chars, first_char);
  };
  for (const EncodedWord& word : scratch.words) {
    const std::string_view raw = text.substr(word.begin, word.end - word.begin);
    scratch.parts.clear();
    model_.cut(raw, scratch.parts, scratch.merge_space);
    for (const WordPart& part : scratch.parts) {
      const std::string_view token = raw.substr(part.begin, part.end - part.begin);
      const std::size_t leading = std::min(token.find_first_not_of(' '), token.size());
      const std::size_t trailing = token.size() - (token.find_last_not_of(' ') + 1);
      const std::int32_t begin = char_of(word.begin + part.begin);
      const std::int32_t end = char_of(word.begin + part.end - 1) + 1;
      scratch.spans.push_back({begin, end, static_cast<std::int32_t>(leading), static_cast<std::int32_t>(trailing)});
    }
  }
}

}  // namespace

std::unique_ptr<TextEncoder> make_byte_level_encoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                                     const BytePairOptions& model, const ByteLevelOptions& options) {
  return std::make_unique<ByteLevelEncoder>(vocabulary, merges, model, options);
}

}  // namespace lockstep::text
