#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/data/text/encoding.h"
#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/token_id.h"

namespace lockstep::text {

/// One place in a template: a text, or special tokens.
struct TemplatePiece {
  enum class Kind { First, Second, Special };
  Kind kind;
  std::int32_t type_id;
  std::vector<TokenId> ids;  ///< of a special token
};

/// What is put around texts, and what happens to their offsets.
struct PostProcessor {
  std::vector<TemplatePiece> single = {{TemplatePiece::Kind::First, 0, {}}};
  std::vector<TemplatePiece> pair = {{TemplatePiece::Kind::First, 0, {}}, {TemplatePiece::Kind::Second, 1, {}}};
  bool trim_offsets = false;      ///< blanks at the ends of a token do not count
  bool add_prefix_space = false;  ///< then the first blank of a text was not in it

  const std::vector<TemplatePiece>& pieces(bool is_pair) const { return is_pair ? pair : single; }
  /// How many special tokens it adds.
  std::int64_t added(bool is_pair) const;
};

/// The tokens of one text: ids, and spans where offsets are asked for.
struct TokenRange {
  const TokenId* ids = nullptr;
  const TokenSpan* spans = nullptr;
  std::int64_t count = 0;
};

/// Shortens the texts to `truncation.max_length`, counting `added` special tokens; `second` is null for a single text.
/// @throws Error  if that is not possible in the way that is asked for
void truncate(const Truncation& truncation, std::int64_t added, TokenRange& first, TokenRange* second);

/// Puts texts and special tokens together.
Encoding assemble(const PostProcessor& processor, const EncodeOptions& options, const TokenRange& first,
                  const TokenRange* second);

/// What padding consists of.
struct PadToken {
  TokenId id = 0;
  std::int32_t type_id = 0;
};

/// Pads each encoding to the length that `padding` gives for all of them together.
void pad(const Padding& padding, const PadToken& token, bool offsets, Encoding* encodings, std::size_t count);

}  // namespace lockstep::text
