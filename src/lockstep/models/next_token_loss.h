#pragma once

#include <cstdint>
#include <string>

#include "lockstep/models/model.h"

namespace lockstep {

/// The loss of a decoder, whose token i predicts token i + 1, summed.
/// @param scores  [size, length, vocabulary]
/// @param labels  [size, length]: the ids themselves, kIgnoreIndex for tokens that do not count
/// @param model   named in errors
/// @param smoothing  the part of each label that all words share evenly
LossSum next_token_loss(const at::Tensor& scores, const at::Tensor& labels, const std::string& model, double smoothing);

/// As random_texts, with "labels": the ids themselves, and kIgnoreIndex for padding.
Batch random_texts_to_predict(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                              std::int64_t pad_token_id, const std::string& model);

}  // namespace lockstep
