#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/data/text/text_encoder.h"
#include "lockstep/detail/data/text/encoding.h"
#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// One place in a template: a text, or special tokens.
struct TemplatePiece {
  enum class Kind { First, Second, Special };
  Kind kind;
  std::int32_t type_id;
  std::vector<TokenId> ids;  ///< for Special
};

/// The tokens that are added around texts, and the treatment of offsets.
struct PostProcessor {
  std::vector<TemplatePiece> single = {{TemplatePiece::Kind::First, 0, {}}};
  std::vector<TemplatePiece> pair = {{TemplatePiece::Kind::First, 0, {}}, {TemplatePiece::Kind::Second, 1, {}}};
  bool trim_offsets = false;      ///< blanks at the ends of a token do not count
  bool add_prefix_space = false;  ///< true: the first blank of a text was added to it

  const std::vector<TemplatePiece>& pieces(bool is_pair) const { return is_pair ? pair : single; }
  /// How many special tokens it adds.
  std::int64_t added(bool is_pair) const;
};

/// The tokens of one text: ids, and spans if offsets are requested.
struct TokenRange {
  const TokenId* ids = nullptr;
  const TokenSpan* spans = nullptr;
  std::int64_t count = 0;
};

/// Shortens the texts to `truncation.max_length`, counting `added` special tokens; `second` is null for a single text.
/// @throws Error  if the requested strategy cannot do that
void truncate(const Truncation& truncation, std::int64_t added, TokenRange& first, TokenRange* second);

/// Combines texts and special tokens.
Encoding assemble(const PostProcessor& processor, const EncodeOptions& options, const TokenRange& first,
                  const TokenRange* second);

/// The token that fills padding.
struct PadToken {
  TokenId id = 0;
  std::int32_t type_id = 0;
};

/// Pads each encoding to the length that `padding` defines for all of them together.
void pad(const Padding& padding, const PadToken& token, bool offsets, Encoding* encodings, std::size_t count);

}  // namespace lockstep::text
