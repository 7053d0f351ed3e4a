#pragma once

#include <memory>

#include "lockstep/data/text/encoders/bert_normalizer.h"
#include "lockstep/data/text/encoders/wordpiece.h"
#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/vocabulary.h"

namespace lockstep::text {

/// BERT's encoding of text to ids: normalize, split at white space and punctuation, split words into pieces.
///
/// Most text skips these steps: raw words are found 64 bytes at a time by bit masks and looked up in the cache.
/// @throws Error  if the vocabulary lacks the unknown token
std::unique_ptr<TextEncoder> make_bert_encoder(const Vocabulary& vocabulary, const WordPieceOptions& model,
                                               const BertNormalizerOptions& normalizer);

}  // namespace lockstep::text
