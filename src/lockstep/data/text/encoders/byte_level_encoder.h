#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/text/encoders/byte_pair.h"
#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/vocabulary.h"

namespace lockstep::text {

struct ByteLevelOptions {
  bool add_prefix_space = false;  ///< put a blank before a text that does not start with one
};

/// The encoding of text to ids of GPT-2 and RoBERTa: split into words by GPT-2's pattern, then byte pairs in each.
///
/// Like BERT's encoder it finds words 64 bytes at a time and looks them up in the cache.
/// @throws Error  as BytePairModel does
std::unique_ptr<TextEncoder> make_byte_level_encoder(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                                     const BytePairOptions& model, const ByteLevelOptions& options);

}  // namespace lockstep::text
