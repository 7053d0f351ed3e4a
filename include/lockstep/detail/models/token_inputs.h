#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// The inputs of a text model. All except `input_ids` may be undefined.
struct TokenInputs {
  at::Tensor input_ids = {};       ///< [size, length] int64, below vocab_size
  at::Tensor attention_mask = {};  ///< [size, length], 1 for tokens, 0 for padding; undefined: all are tokens
  at::Tensor token_type_ids = {};  ///< [size, length] int64; undefined: 0
  at::Tensor position_ids = {};    ///< [size, length] or [1, length] int64; undefined: 0, 1, 2…, padding included
};

/// The ranges that ids must lie in.
struct TokenLimits {
  std::int64_t vocab_size;
  std::int64_t max_positions;
  std::int64_t token_types;         ///< 0: any id below vocab_size, as for GPT-2; -1: they are not looked at
  std::int64_t first_position = 0;  ///< positions that no token of a text has, before those of its tokens
};

/// Checks shapes and dtypes and, for tensors on the CPU, every id. (On another device the check would have to wait.)
/// @param model  named in errors
/// @throws Error  that says which field, row and column, and how the tokenizer or the model should change
void check_token_inputs(const TokenInputs& inputs, const TokenLimits& limits, const std::string& model);

/// [size, 1, 1, length]: 0 for tokens and the lowest finite number for padding, to be added to attention scores as
/// Hugging Face does. Undefined if `mask` is undefined or, on a CPU, holds only tokens.
at::Tensor additive_mask(const at::Tensor& mask, at::ScalarType dtype);

/// 0, 1, 2… over the tokens of each row, and 1 for padding: the positions that Hugging Face's generation uses for left
/// padding.
/// @param mask  [size, length]
at::Tensor position_ids_of_mask(const at::Tensor& mask);

}  // namespace lockstep
