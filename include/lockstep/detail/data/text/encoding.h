#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep {

/// The characters of its text that a token covers: [begin, end), counted in code points, as in Python. Special tokens
/// and padding have [0, 0).
struct CharSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  friend bool operator==(const CharSpan& a, const CharSpan& b) { return a.begin == b.begin && a.end == b.end; }
};

/// One text, or a pair of texts, in the form that a model takes. All vectors have one length; `offsets` is empty unless
/// it was requested.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> token_type_ids;       ///< 0 or 1: which text of the pair
  std::vector<std::int32_t> attention_mask;       ///< 0 for padding, else 1
  std::vector<std::int32_t> special_tokens_mask;  ///< 1 for tokens added around the texts, and for padding
  std::vector<CharSpan> offsets;                  ///< of each token in its own text
};

/// The end of a sequence, for truncation and padding.
enum class SequenceSide { Right, Left };

/// Which text is shortened if text and special tokens together are too long.
enum class TruncationStrategy {
  LongestFirst,  ///< the longer text of a pair, until both are equally long, then both
  OnlyFirst,     ///< the first text; an error if that is not enough
  OnlySecond     ///< the second text; an error if that is not enough, or there is no second text
};

struct Truncation {
  std::int64_t max_length = 512;  ///< tokens, special ones included
  TruncationStrategy strategy = TruncationStrategy::LongestFirst;
  /// End at which tokens are removed. Unset: as the tokenizer's files declare (`truncation_side`), else Right.
  std::optional<SequenceSide> side{};
};

enum class PaddingMode {
  Longest,   ///< as long as the longest of the batch
  MaxLength  ///< `max_length`
};

struct Padding {
  PaddingMode mode = PaddingMode::Longest;
  std::int64_t max_length = 512;  ///< for MaxLength; a longer text is not shortened
  std::int64_t multiple_of = 0;   ///< the length is rounded up to a multiple of this; 0: no rounding
  SequenceSide side = SequenceSide::Right;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  bool offsets = false;  ///< fill `Encoding::offsets`
};

}  // namespace lockstep
