#include "lockstep/data/text/encoders/bert_encoder.h"

#include <algorithm>

#include "lockstep/data/text/encoders/cached_word_encoder.h"
#include "lockstep/data/text/files/lazy_pages.h"
#include "lockstep/data/text/unicode/ascii_block.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

class BertWordEncoder final : public CachedWordEncoder {
 public:
  BertWordEncoder(const Vocabulary& vocabulary, const WordPieceOptions& model, const BertNormalizerOptions& normalizer)
      : normalizer_(normalizer),
        pieces_(vocabulary, model),
        singles_([this](char32_t first, SinglePage& page) { fill_singles(first, page); }) {}

  void encode(std::string_view text, EncoderScratch& scratch) const override { encode_raw<false>(text, scratch); }

  void encode_with_spans(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const override;

  bool normalizes() const override { return true; }
  void normalize(std::string_view text, std::uint32_t first_char, bool with_source,
                 NormalizedText& out) const override {
    normalizer_.normalize(text, first_char, with_source, out);
  }

  void encode_normalized(const NormalizedText& text, std::size_t begin, std::size_t end,
                         EncoderScratch& scratch) const override;

 private:
  /// The id of each character that is a word by itself; negative if it does not have exactly one.
  struct SinglePage {
    TokenId ids[kPageChars];
  };

  /// Appends the ids of `text`; with `kWords` also appends an entry for each word to `scratch.words`.
  template <bool kWords>
  void encode_raw(std::string_view text, EncoderScratch& scratch) const;
  /// Encodes plain ASCII from `at` on, and returns where it stopped: the end, or a word that is not plain or is long.
  template <bool kWords>
  std::size_t encode_plain(std::string_view text, std::size_t at, EncoderScratch& scratch) const;
  /// Encodes any characters from `at` on, at least one, until plain ASCII begins.
  template <bool kWords>
  std::size_t encode_any(std::string_view text, std::size_t at, EncoderScratch& scratch) const;
  void cut(std::string_view raw, EncoderScratch& scratch) const override;
  /// Appends to `scratch.parts` the tokens of normalized text.
  void cut_normalized(std::string_view text, std::size_t begin, std::size_t end, std::vector<WordPart>& parts) const;
  void fill_singles(char32_t first, SinglePage& page) const;

  BertNormalizer normalizer_;
  WordPiece pieces_;
  LazyPages<SinglePage> singles_;
};

/// ASCII letters and digits need no table: fills `out` and returns true if `raw` consists of them.
bool normalize_plain(std::string_view raw, bool lowercase, std::string& out) {
  out.resize(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const auto byte = static_cast<unsigned char>(raw[i]);
    const auto folded = static_cast<unsigned char>(byte | 0x20);
    const bool letter = folded >= 'a' && folded <= 'z';
    if (!letter && (byte < '0' || byte > '9')) return false;
    out[i] = static_cast<char>(letter && lowercase ? folded : byte);
  }
  return true;
}

void append_ids(const std::vector<WordPart>& parts, IdBuffer& ids) {
  TokenId* out = ids.reserve(parts.size());
  for (const WordPart& part : parts) *out++ = part.id;
  ids.set_end(out);
}

template <bool kWords>
void BertWordEncoder::encode_raw(std::string_view text, EncoderScratch& scratch) const {
  for (std::size_t at = 0; at < text.size();) {
    at = encode_plain<kWords>(text, at, scratch);
    if (at < text.size()) at = encode_any<kWords>(text, at, scratch);
  }
}

template <bool kWords>
std::size_t BertWordEncoder::encode_plain(std::string_view text, std::size_t at, EncoderScratch& scratch) const {
  TailBlock tail;
  while (at < text.size()) {
    const char* source = tail.at(text, at, ' ');
    const AsciiBlock block = classify_block(source);
    const std::uint64_t word = block.letter | block.digit;
    const std::uint64_t space = block.blank | block.line_space;
    const std::uint64_t stop = block.high | (block.control & ~block.line_space);
    const std::uint64_t isolated = ~(word | space | stop);
    std::uint64_t starts = (word & ~(word << 1)) | isolated;
    const std::uint64_t boundaries = ~word | starts;
    const int stop_at = stop != 0 ? lowest_bit(stop) : kBlockBytes;
    if (stop != 0) starts &= bits_below(stop_at);

    // The last word may continue after the block, if it touches the block's end or a character that is not plain.
    int done = stop_at;
    if (starts != 0) {
      const int last = highest_bit(starts);
      const std::uint64_t ends = boundaries & bits_above(last);
      if (ends == 0 || lowest_bit(ends) == stop_at) {
        done = last;
        starts &= bits_below(last);
      }
    }
    BlockWords words;
    for (; starts != 0; starts &= starts - 1) {
      const int begin = lowest_bit(starts);
      words.add(begin, lowest_bit(boundaries & bits_above(begin)) - begin);
    }
    append_block<kWords>(text, at, source, words, scratch);
    at = std::min(at + static_cast<std::size_t>(done), text.size());
    if (stop != 0 || done == 0) return at;
  }
  return at;
}

template <bool kWords>
std::size_t BertWordEncoder::encode_any(std::string_view text, std::size_t at, EncoderScratch& scratch) const {
  const char* data = text.data();
  do {
    const std::size_t begin = at;
    const char32_t c = decode_char(data, &at);
    const WordClass kind = normalizer_.class_of(c);
    if (kind == WordClass::Space) continue;
    if (kind == WordClass::Isolated) {
      const TokenId id = singles_.page_of(c).ids[c % kPageChars];
      if (id >= 0) {
        scratch.ids.append(&id, 1);
        if (kWords) scratch.words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at), 1});
        continue;
      }
    } else {
      for (std::size_t next = at; next < text.size(); at = next) {
        if (normalizer_.class_of(decode_char(data, &next)) != WordClass::Word) break;
      }
    }
    append_word<kWords>(text, begin, at, scratch);
  } while (goes_on_beyond_ascii(text, at));
  return at;
}

void BertWordEncoder::cut(std::string_view raw, EncoderScratch& scratch) const {
  scratch.normalized.clear();
  if (normalize_plain(raw, normalizer_.options().lowercase, scratch.normalized.bytes)) {
    pieces_.cut(scratch.normalized.bytes, scratch.parts);
    return;
  }
  scratch.normalized.clear();
  normalizer_.normalize(raw, 0, false, scratch.normalized);
  cut_normalized(scratch.normalized.bytes, 0, scratch.normalized.bytes.size(), scratch.parts);
}

void BertWordEncoder::cut_normalized(std::string_view text, std::size_t begin, std::size_t end,
                                     std::vector<WordPart>& parts) const {
  const auto cut = [&](std::size_t from, std::size_t to) {
    const std::size_t before = parts.size();
    pieces_.cut(text.substr(from, to - from), parts);
    for (std::size_t i = before; i < parts.size(); ++i) {
      parts[i].begin += static_cast<std::uint32_t>(from);
      parts[i].end += static_cast<std::uint32_t>(from);
    }
  };
  std::size_t word_at = begin;
  for (std::size_t at = begin; at < end;) {
    const std::size_t here = at;
    const WordClass kind = word_class(decode_char(text.data(), &at));
    if (kind == WordClass::Word) continue;
    if (word_at < here) cut(word_at, here);
    if (kind == WordClass::Isolated) cut(here, at);
    word_at = at;
  }
  if (word_at < end) cut(word_at, end);
}

void BertWordEncoder::fill_singles(char32_t first, SinglePage& page) const {
  std::string raw;
  NormalizedText normalized;
  std::vector<WordPart> parts;
  for (char32_t i = 0; i < kPageChars; ++i) {
    page.ids[i] = -1;
    if (normalizer_.class_of(first + i) != WordClass::Isolated) continue;
    raw.clear();
    normalized.clear();
    parts.clear();
    append_utf8(first + i, raw);
    normalizer_.normalize(raw, 0, false, normalized);
    cut_normalized(normalized.bytes, 0, normalized.bytes.size(), parts);
    if (parts.size() == 1) page.ids[i] = parts[0].id;
  }
}

void BertWordEncoder::encode_with_spans(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const {
  scratch.words.clear();
  encode_raw<true>(text, scratch);
  std::size_t counted = 0;
  auto char_at = static_cast<std::uint32_t>(first_char);
  for (const EncodedWord& word : scratch.words) {
    char_at += static_cast<std::uint32_t>(count_chars(text.substr(counted, word.begin - counted)));
    counted = word.begin;
    const std::string_view raw = text.substr(word.begin, word.end - word.begin);
    if (word.count == 1 && find_non_ascii(raw) == raw.size() && raw.size() == 1) {
      scratch.spans.push_back({static_cast<std::int32_t>(char_at), static_cast<std::int32_t>(char_at + 1), 0, 0});
      continue;
    }
    scratch.normalized.clear();
    scratch.parts.clear();
    normalizer_.normalize(raw, char_at, true, scratch.normalized);
    cut_normalized(scratch.normalized.bytes, 0, scratch.normalized.bytes.size(), scratch.parts);
    for (const WordPart& part : scratch.parts) {
      const auto begin = static_cast<std::int32_t>(scratch.normalized.source[part.begin]);
      const auto end = static_cast<std::int32_t>(scratch.normalized.source[part.end - 1] + 1);
      scratch.spans.push_back({begin, end, 0, 0});
    }
  }
}

void BertWordEncoder::encode_normalized(const NormalizedText& text, std::size_t begin, std::size_t end,
                                        EncoderScratch& scratch) const {
  scratch.parts.clear();
  cut_normalized(text.bytes, begin, end, scratch.parts);
  append_ids(scratch.parts, scratch.ids);
  for (const WordPart& part : scratch.parts) {
    scratch.spans.push_back({static_cast<std::int32_t>(text.source[part.begin]),
                             static_cast<std::int32_t>(text.source[part.end - 1] + 1), 0, 0});
  }
}

}  // namespace

std::unique_ptr<TextEncoder> make_bert_encoder(const Vocabulary& vocabulary, const WordPieceOptions& model,
                                               const BertNormalizerOptions& normalizer) {
  return std::make_unique<BertWordEncoder>(vocabulary, model, normalizer);
}

}  // namespace lockstep::text
