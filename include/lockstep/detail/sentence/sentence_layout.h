#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// How one vector is made of those of a text's tokens.
enum class Pooling {
  Mean,  ///< of all tokens, padding left out
  Cls,   ///< the first token's
  Max    ///< the largest number at each place, padding left out
};

/// What a folder of sentence-transformers says beside the encoder's own files.
struct SentenceLayout {
  Pooling pooling = Pooling::Mean;
  bool normalizes = false;                     ///< vectors have length 1
  std::optional<std::int64_t> max_seq_length;  ///< tokens of the longest text
};

/// Whether `folder` is one that sentence-transformers, or a training of a SentenceEncoder, has saved.
bool is_sentence_folder(const std::string& folder);

}  // namespace lockstep
