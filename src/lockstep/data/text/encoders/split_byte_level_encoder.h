#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/text/encoders/byte_pair.h"
#include "lockstep/data/text/patterns/text_splitter.h"
#include "lockstep/data/text/text_encoder.h"
#include "lockstep/data/text/vocabulary.h"

namespace lockstep::text {

/// How a byte-level BPE cuts texts that does it otherwise than GPT-2.
struct SplitOptions {
  TextSplitter splitter;
  bool normalizes_nfc = false;  ///< brings texts into normalization form C first
};

/// The encoding of text to ids of Llama 3, Qwen, SmolLM and others: cut into words by patterns, then byte pairs in
/// each.
/// @throws Error  as BytePairModel does
std::unique_ptr<TextEncoder> make_split_byte_level_encoder(const Vocabulary& vocabulary,
                                                           const std::vector<Merge>& merges,
                                                           const BytePairOptions& model, SplitOptions options);

}  // namespace lockstep::text
