#pragma once

#include "lockstep/data/text/files/tokenizer_config.h"
#include "lockstep/data/text/files/tokenizer_document.h"

namespace lockstep::text {

/// Applies the settings of tokenizer_config.json that do not depend on the kind of the tokenizer: `truncation_side`,
/// `model_input_names`, `clean_up_tokenization_spaces` and further special tokens. The document keeps all settings.
/// @throws Error  if a further special token is not in the vocabulary
void apply_settings(const TokenizerConfig& config, TokenizerDocument& document);

/// Warns if texts are lower-cased although the vocabulary has words with capital letters, and no file says so.
void warn_of_capitals(const TokenizerConfig& config, const TokenizerDocument& document);

}  // namespace lockstep::text
