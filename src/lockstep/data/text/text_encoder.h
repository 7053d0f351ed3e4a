#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/encoders/bert_normalizer.h"
#include "lockstep/data/text/encoders/word_cache.h"
#include "lockstep/data/text/encoders/wordpiece.h"
#include "lockstep/data/text/id_buffer.h"
#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// The characters of the text that one token covers: [begin, end), counted in code points.
struct TokenSpan {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t leading_blanks;  ///< blanks of the token itself, for trimming offsets
  std::int32_t trailing_blanks;
};

/// A run of raw bytes that produced `count` ids.
struct EncodedWord {
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t count;
};

/// An encoder's work space and results. One thread at a time. It is kept between texts, because the cache in it makes
/// encoding fast.
struct EncoderScratch {
  WordCache cache;
  IdBuffer ids;                  ///< the ids of the text so far
  std::vector<TokenSpan> spans;  ///< one for each id, if spans are requested
  // Work space.
  std::vector<EncodedWord> words;
  std::vector<WordPart> parts;
  NormalizedText normalized;
  std::string bytes;
  std::vector<std::uint64_t> merge_space;
};

/// Turns text between special tokens into ids; one class for each kind of model. Thread-safe if each thread has its own
/// scratch.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text`, which is well-formed UTF-8.
  virtual void encode(std::string_view text, EncoderScratch& scratch) const = 0;

  /// Appends ids and spans; `first_char` is the index of the first character of `text`.
  virtual void encode_with_spans(std::string_view text, std::int32_t first_char, EncoderScratch& scratch) const = 0;

  /// Whether texts are normalized before they are cut; if not, the two below are not called.
  virtual bool normalizes() const { return false; }
  /// @param with_source  whether `out.source` is wanted, counted from `first_char`
  virtual void normalize(std::string_view text, std::uint32_t first_char, bool with_source, NormalizedText& out) const;

  /// Appends ids and spans of the part [begin, end), in bytes, of a text that was normalized with sources.
  virtual void encode_normalized(const NormalizedText& text, std::size_t begin, std::size_t end,
                                 EncoderScratch& scratch) const;
};

}  // namespace lockstep::text
