#include "lockstep/detail/models/token_inputs.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/models/layers/attention_composed.h"

namespace lockstep {
namespace {

std::string where(const std::string& model, const char* field) { return fmt::format("{}, field \"{}\"", model, field); }

void check_shape(const at::Tensor& tensor, const at::Tensor& ids, const char* field, const std::string& model) {
  const bool is_broadcast = std::string(field) == "position_ids" && tensor.dim() == 2 && tensor.size(0) == 1;
  if (tensor.dim() == 2 && tensor.size(1) == ids.size(1) && (is_broadcast || tensor.size(0) == ids.size(0))) return;
  throw Error(fmt::format("{} of shape [{}] does not fit input_ids of shape [{}]", field,
                          fmt::join(tensor.sizes(), ", "), fmt::join(ids.sizes(), ", ")),
              where(model, field), "give one number for each token");
}

void check_ids(const at::Tensor& tensor, std::int64_t limit, const char* field, const std::string& model,
               const char* fix) {
  if (tensor.scalar_type() != at::kLong) {
    throw Error(fmt::format("{} is {}, not int64", field, c10::toString(tensor.scalar_type())), where(model, field),
                "convert it to int64");
  }
  if (!tensor.device().is_cpu()) return;
  const at::Tensor flat = tensor.contiguous();
  const std::int64_t* ids = flat.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (ids[i] >= 0 && ids[i] < limit) continue;
    const std::int64_t length = tensor.size(1);
    throw Error(fmt::format("id {} in row {}, column {} is not in the range 0 to {}", ids[i], i / length, i % length,
                            limit - 1),
                where(model, field), fix);
  }
}

}  // namespace

void check_token_inputs(const TokenInputs& inputs, const TokenLimits& limits, const std::string& model) {
  const at::Tensor& ids = inputs.input_ids;
  if (!ids.defined() || ids.dim() != 2) {
    throw Error(ids.defined() ? fmt::format("input_ids has {} dimensions, not 2", ids.dim()) : "there are no input_ids",
                where(model, "input_ids"), "give token ids of shape [size, length]");
  }
  if (ids.size(1) > limits.max_positions) {
    throw Error(
        fmt::format("a text of {} tokens is longer than the model's {} positions", ids.size(1), limits.max_positions),
        where(model, "input_ids"), fmt::format("truncate when tokenizing, to at most {} tokens", limits.max_positions));
  }
  if (ids.size(1) == 0) {
    throw Error("the texts have no tokens at all", where(model, "input_ids"),
                "tokenize with special tokens, or drop empty texts");
  }
  check_ids(ids, limits.vocab_size, "input_ids", model,
            "the tokenizer is not this model's: use the one from the model's folder");
  if (inputs.attention_mask.defined()) check_shape(inputs.attention_mask, ids, "attention_mask", model);
  if (inputs.token_type_ids.defined() && limits.token_types >= 0) {
    check_shape(inputs.token_type_ids, ids, "token_type_ids", model);
    check_ids(inputs.token_type_ids, limits.token_types > 0 ? limits.token_types : limits.vocab_size, "token_type_ids",
              model, "number the segments of a pair from 0 on, below type_vocab_size");
  }
  if (inputs.position_ids.defined()) {
    check_shape(inputs.position_ids, ids, "position_ids", model);
    check_ids(inputs.position_ids, limits.first_position + limits.max_positions, "position_ids", model,
              "number positions from 0 on");
  }
}

at::Tensor additive_mask(const at::Tensor& mask, at::ScalarType dtype) {
  if (!mask.defined()) return {};
  if (mask.device().is_cpu() && mask.ne(0).all().item<bool>()) return {};
  return ((1 - mask.to(dtype)) * lowest_number(dtype)).unsqueeze(1).unsqueeze(1);
}

at::Tensor position_ids_of_mask(const at::Tensor& mask) {
  const at::Tensor counts = mask.to(at::kLong);
  return (counts.cumsum(1) - 1).masked_fill(counts.eq(0), 1);
}

}  // namespace lockstep
