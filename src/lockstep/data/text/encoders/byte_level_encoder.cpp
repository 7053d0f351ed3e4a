#include "lockstep/data/text/encoders/byte_level_encoder.h"

#include <algorithm>

#include "lockstep/data/text/encoders/byte_spans.h"
#include "lockstep/data/text/encoders/cached_word_encoder.h"
#include "lockstep/data/text/encoders/gpt2_pattern.h"
#include "lockstep/data/text/unicode/ascii_block.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

/// The starts of words among 64 bytes of ASCII, the first of which is a start: bit i for byte i. Bits are valid up to
/// the first byte that is not ASCII; a start at the last byte may be missing.
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

class ByteLevelEncoder final : public CachedWordEncoder {
 public:
  ByteLevelEncoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const BytePairOptions& model,
                   const ByteLevelOptions& options)
      : model_(vocabulary, merges, model), options_(options) {
    warn_of_missing_bytes(model_, model);
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

  /// Appends the ids of `text`; with `kWords` also appends an entry for each word to `scratch.words`.
  template <bool kWords>
  void encode_raw(std::string_view text, EncoderScratch& scratch) const;
  /// Encodes ASCII from `at` on, which is the start of a word, and returns where it stopped: the end, or a word that is
  /// long or touches other characters.
  template <bool kWords>
  std::size_t encode_ascii(std::string_view text, std::size_t at, EncoderScratch& scratch) const;
  void cut(std::string_view word, EncoderScratch& scratch) const override {
    model_.cut(word, scratch.parts, scratch.merge_space);
  }

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

/// Handles contractions: each is a word, and ends where no other word would. Drops the starts after a contraction that
/// the block cuts off, unless the text `ends_here`.
void split_contractions(std::string_view source, std::uint64_t apostrophes, bool ends_here, std::uint64_t& starts) {
  // An apostrophe at a start has no blank before it; with a blank, it belongs to a run of other characters.
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
  TailBlock tail;
  while (at < text.size()) {
    const char* source = tail.at(text, at, '\0');
    const std::size_t left = text.size() - at;
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
    BlockWords words;
    while ((starts & (starts - 1)) != 0) {
      const int begin = lowest_bit(starts);
      starts &= starts - 1;
      words.add(begin, lowest_bit(starts) - begin);
    }
    append_block<kWords>(text, at, source, words, scratch);
    const int done = starts != 0 ? lowest_bit(starts) : 0;
    at += static_cast<std::size_t>(done);
    if (done == 0 || high != 0) return at;
  }
  return at;
}

void ByteLevelEncoder::encode_with_spans(std::string_view text, std::int32_t first_char,
                                         EncoderScratch& scratch) const {
  const bool prefixed = needs_prefix(text);
  if (prefixed) text = with_prefix(text, scratch);
  scratch.words.clear();
  encode_raw<true>(text, scratch);
  // The prefix is traced to the character after it.
  const CountedChars counted(text, first_char);
  const auto char_of = [&](std::size_t byte) { return std::max(counted(byte) - (prefixed ? 1 : 0), first_char); };
  append_token_spans(model_, text, char_of, scratch);
}

}  // namespace

std::unique_ptr<TextEncoder> make_byte_level_encoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                                     const BytePairOptions& model, const ByteLevelOptions& options) {
  return std::make_unique<ByteLevelEncoder>(vocabulary, merges, model, options);
}

}  // namespace lockstep::text
