#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// What a text model takes. All but `input_ids` may be undefined.
struct TokenInputs {
  at::Tensor input_ids = {};       ///< [size, length] int64, below vocab_size
  at::Tensor attention_mask = {};  ///< [size, length], 1 for tokens, 0 for padding; undefined: all are tokens
  at::Tensor token_type_ids = {};  ///< [size, length] int64; undefined: 0
  at::Tensor position_ids = {};    ///< [size, length] or [1, length] int64; undefined: 0, 1, 2… whatever the padding
};

/// What the ids may be.
struct TokenLimits {
  std::int64_t vocab_size;
  std::int64_t max_positions;
  std::int64_t token_types;  ///< 0: any id below vocab_size, as GPT-2 has it
};

/// Checks shapes and dtypes, and, where a tensor is on the CPU, every id. (On a device the check would wait for it.)
/// @param model  named in errors
/// @throws Error  that says which field, row and column, and how the tokenizer or the model should change
void check_token_inputs(const TokenInputs& inputs, const TokenLimits& limits, const std::string& model);

/// [size, 1, 1, length]: 0 for tokens and the lowest finite number for padding, to be added to attention scores as
/// Hugging Face does. Undefined where `mask` is, or holds only tokens (looked at on the CPU alone).
at::Tensor additive_mask(const at::Tensor& mask, at::ScalarType dtype);

/// 0, 1, 2… over the tokens of each row, 1 for padding: what Hugging Face's generation gives models for left padding.
/// @param mask  [size, length]
at::Tensor position_ids_of_mask(const at::Tensor& mask);

}  // namespace lockstep
