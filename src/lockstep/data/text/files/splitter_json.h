#pragma once

#include <optional>

#include "lockstep/data/text/encoders/split_byte_level_encoder.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::text {

/// What Digits takes for a digit. Hugging Face's library asks Rust there, which has the numbers of Unicode 17.0.
constexpr const char* kDigitPattern = "[\\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]";

/// How a document with byte-level BPE cuts texts; nothing if it does so as GPT-2, by ByteLevel alone.
/// @throws Error  that names a declared value that is not supported
std::optional<SplitOptions> declared_split(const TokenizerDocument& document);

}  // namespace lockstep::text
