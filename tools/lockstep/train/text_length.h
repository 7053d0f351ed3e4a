// How many tokens of a text a model sees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/text/tokenizer.h"

namespace lockstep {

/// The longest sample in tokens, and where that number is from.
struct TextLength {
  std::int64_t tokens = 0;
  std::string source;
  /// One line for the user.
  std::string line() const;
};

/// The length that a training takes: --max-length; else what the tokenizer declares (`model_max_length`), but no more
/// than the model's positions and 512.
/// @param asked  --max-length; 0: not given
/// @param positions  tokens in the longest text that the model accepts
/// @throws UsageError  if the model has fewer positions than --max-length
TextLength text_length_of_training(std::int64_t asked, const Tokenizer& tokenizer, std::int64_t positions);

/// The length that an evaluation or prediction takes: --max-length; else what the tokenizer declares, which is what a
/// training of Lockstep saved. If it declares nothing, as a training. Throws as above.
TextLength text_length_of_saved(std::int64_t asked, const Tokenizer& tokenizer, std::int64_t positions);

/// What a SentenceEncoder's folder declares (`max_seq_length`); nothing if --max-length is given, or no such length.
/// @param declared  of SentenceLayout
std::optional<TextLength> text_length_of_sentences(std::int64_t asked, std::optional<std::int64_t> declared,
                                                   std::int64_t positions);

}  // namespace lockstep
