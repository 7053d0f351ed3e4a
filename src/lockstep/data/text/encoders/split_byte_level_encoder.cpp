#include "lockstep/data/text/encoders/split_byte_level_encoder.h"

#include <string>
#include <utility>

#include "lockstep/data/text/encoders/byte_spans.h"
#include "lockstep/data/text/encoders/cached_word_encoder.h"
#include "lockstep/data/text/unicode/nfc_normalizer.h"

namespace lockstep::text {
namespace {

class SplitByteLevelEncoder final : public CachedWordEncoder {
 public:
  SplitByteLevelEncoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const BytePairOptions& model,
                        SplitOptions options)
      : model_(vocabulary, merges, model), options_(std::move(options)) {
    warn_of_missing_bytes(model_, model);
  }

  void encode(std::string_view text, EncoderScratch& scratch) const override {
    std::string normalized;
    if (options_.normalizes_nfc && !is_surely_nfc(text)) {
      normalized = normalize_nfc(text, 0, nullptr);
      text = normalized;
    }
    encode_words<false>(text, scratch);
  }

  void encode_with_spans(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const override {
    if (!options_.normalizes_nfc || is_surely_nfc(text)) {
      encode_words<true>(text, scratch);
      append_token_spans(model_, text, CountedChars(text, first_char), scratch);
      return;
    }
    NormalizedText normalized;
    normalize(text, static_cast<std::uint32_t>(first_char), true, normalized);
    encode_normalized(normalized, 0, normalized.bytes.size(), scratch);
  }

  bool normalizes() const override { return options_.normalizes_nfc; }
  void normalize(std::string_view text, std::uint32_t first_char, bool with_source,
                 NormalizedText& out) const override {
    out.clear();
    out.bytes = normalize_nfc(text, first_char, with_source ? &out.source : nullptr);
  }

  void encode_normalized(const NormalizedText& text, std::size_t begin, std::size_t end,
                         EncoderScratch& scratch) const override {
    const std::string_view part = std::string_view(text.bytes).substr(begin, end - begin);
    encode_words<true>(part, scratch);
    const auto char_of = [&](std::size_t byte) { return static_cast<std::int32_t>(text.source[begin + byte]); };
    append_token_spans(model_, part, char_of, scratch);
  }

 private:
  /// With `kWords`, `scratch.words` becomes the words.
  template <bool kWords>
  void encode_words(std::string_view text, EncoderScratch& scratch) const {
    if (kWords) scratch.words.clear();
    options_.splitter.split(
        text, [&](std::size_t begin, std::size_t end) { append_word<kWords>(text, begin, end, scratch); });
  }
  void cut(std::string_view word, EncoderScratch& scratch) const override {
    model_.cut(word, scratch.parts, scratch.merge_space);
  }

  BytePairModel model_;
  SplitOptions options_;
};

}  // namespace

std::unique_ptr<TextEncoder> make_split_byte_level_encoder(const Vocabulary& vocabulary,
                                                           const std::vector<Merge>& merges,
                                                           const BytePairOptions& model, SplitOptions options) {
  return std::make_unique<SplitByteLevelEncoder>(vocabulary, merges, model, std::move(options));
}

}  // namespace lockstep::text
