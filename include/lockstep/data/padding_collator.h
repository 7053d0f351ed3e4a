#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/text/encoding.h"
#include "lockstep/data/text/tokenizer.h"

namespace lockstep {

/// The label of what does not count in a loss; LibTorch's cross entropy leaves it out by default.
constexpr std::int64_t kIgnoredLabel = -100;

/// Samples of different lengths to a batch, padded no further than this batch needs: the `collate` of a loader.
///
///     options.collate = DataCollatorWithPadding(tokenizer);
///
/// "input_ids" [n] of each sample become [batch, length] with the tokenizer's padding token; "attention_mask" is 0 for
/// padding, and made where samples have none; "token_type_ids" 0, "special_tokens_mask" 1. "labels" may be scalars
/// [] → [batch], or one per token, padded with -100; "label" and "label_ids" are called "labels" in the batch. All
/// other fields are stacked. Immutable: several threads may use one. Reference: Hugging Face's DataCollatorWithPadding.
class DataCollatorWithPadding {
 public:
  /// @param padding  Longest: as long as the longest sample of the batch; MaxLength: `padding.max_length`. Then rounded
  /// up to `multiple_of`, which tensor cores like
  /// @throws Error  if the tokenizer has no padding token (GPT-2: see Tokenizer::set_pad_token), or a length is
  /// negative
  explicit DataCollatorWithPadding(const Tokenizer& tokenizer, const Padding& padding = {});

  /// @throws Error  naming the sample of the batch and the field: fields that are missing or no sequences of one
  /// length, sequences longer than `max_length` under MaxLength, or as `stack_examples`; without any sample
  Batch operator()(std::vector<Example> examples) const;

 private:
  std::int64_t padded_length(const std::vector<Example>& examples) const;

  std::int64_t pad_id_;
  Padding padding_;
};

}  // namespace lockstep
