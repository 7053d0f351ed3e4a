#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Which places of a batch of texts hold tokens; the others hold padding.
struct TokenRows {
  at::Tensor places;                 ///< [tokens] int64: their rows among size * length
  std::vector<std::int64_t> starts;  ///< the first of each text's tokens, and the number of all: size + 1 numbers
};

/// @param mask  [size, length]: 1 for tokens, 0 for padding; or undefined
/// @return  nothing if rows of padding cannot be left out: no place holds padding, a text begins with padding, the mask
///          has other numbers, or it is not on the CPU
std::optional<TokenRows> rows_of_tokens(const at::Tensor& mask);

}  // namespace lockstep
