#include "lockstep/models/layers/token_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nonzero.h>

namespace lockstep {

std::optional<TokenRows> rows_of_tokens(const at::Tensor& mask) {
  if (!mask.defined() || !mask.device().is_cpu()) return std::nullopt;
  const at::Tensor is_token = mask.eq(1);
  if (!is_token.logical_or(mask.eq(0)).all().item<bool>()) return std::nullopt;
  if (is_token.all().item<bool>() || !is_token.select(1, 0).all().item<bool>()) return std::nullopt;
  TokenRows rows{at::nonzero(is_token.flatten()).flatten(), {0}};
  const at::Tensor ends = is_token.sum(1).cumsum(0);
  const std::int64_t* end = ends.data_ptr<std::int64_t>();
  rows.starts.insert(rows.starts.end(), end, end + ends.numel());
  return rows;
}

}  // namespace lockstep
