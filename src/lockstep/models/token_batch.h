#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/model.h"

namespace lockstep {

/// The tensors of `batch` that a text model takes. Tensors that the batch lacks stay undefined.
/// @throws Error  naming `model`, if "input_ids" is missing
TokenInputs token_inputs_of(const Batch& batch, const std::string& model);

/// Synthetic texts: random "input_ids", and an "attention_mask" of ones; with mixed lengths it has zeros behind each
/// text.
/// @param vocab_size  all ids are below it
/// @param max_positions  length of the longest text allowed; the default length is 128, or this if it is less
/// @param pad_token_id  fills the rest of a short text
/// @throws Error  if the length is not positive or too long
Batch random_texts(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                   std::int64_t pad_token_id, const std::string& model);

/// The same with "labels" [size, length]: the word itself at 15 % of the places and at the first place of each text,
/// kIgnoreIndex elsewhere. Throws as random_texts.
Batch random_masked_texts(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                          std::int64_t pad_token_id, const std::string& model);

}  // namespace lockstep
