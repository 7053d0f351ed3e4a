#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/detail/data/text/encoding.h"

namespace lockstep {

/// The label of tokens that do not count in a loss; LibTorch's cross entropy ignores it by default.
constexpr std::int64_t kIgnoredLabel = -100;

/// Combines samples of different lengths into a batch, padded no further than the batch needs: the `collate` of a
/// loader.
///
///     options.collate = DataCollatorWithPadding(tokenizer);
///
/// "input_ids" [n] of each sample become [batch, length], filled with the tokenizer's padding token. "attention_mask"
/// is 0 for padding, and is made if samples have none. "token_type_ids" are filled with 0, "special_tokens_mask" with
/// 1. "labels" may be scalars [] → [batch], or one per token, filled with -100; labels of floating-point numbers, as of
/// several outputs, are stacked. "label" and "label_ids" become "labels" in the batch. All other fields are stacked.
/// Immutable: several threads may use one. Reference: Hugging Face's DataCollatorWithPadding.
class DataCollatorWithPadding {
 public:
  /// @param padding  Longest: the length of the longest sample in the batch; MaxLength: `padding.max_length`. That
  /// length is rounded up to `multiple_of`, which suits tensor cores
  /// @throws Error  if the tokenizer has no padding token (GPT-2: see Tokenizer::set_pad_token), or a length is
  /// negative
  explicit DataCollatorWithPadding(const Tokenizer& tokenizer, const Padding& padding = {});

  /// @throws Error  naming the sample of the batch and the field, if fields are missing or are not sequences of one
  /// length, or if sequences are longer than `max_length` under MaxLength; as `stack_examples`; if `examples` is empty
  Batch operator()(std::vector<Example> examples) const;

 private:
  std::int64_t padded_length(const std::vector<Example>& examples) const;

  std::int64_t pad_id_;
  Padding padding_;
};

}  // namespace lockstep
