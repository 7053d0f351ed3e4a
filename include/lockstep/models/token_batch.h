#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/models/model.h"
#include "lockstep/models/token_inputs.h"

namespace lockstep {

/// The tensors of a batch that a text model takes; those that are not there stay undefined.
/// @throws Error  if there are no "input_ids"; `model` is named in it
TokenInputs token_inputs_of(const Batch& batch, const std::string& model);

/// Synthetic texts: "input_ids" of any ids, "attention_mask" of ones, or, with mixed lengths, of zeros behind each
/// text.
/// @param vocab_size  ids are below it
/// @param max_positions  longest text; the default length is 128 or that
/// @param pad_token_id  fills the rest of a short text
/// @throws Error  if the length is not positive or too long
Batch random_texts(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                   std::int64_t pad_token_id, const std::string& model);

}  // namespace lockstep
