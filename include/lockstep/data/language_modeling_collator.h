#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "lockstep/data/padding_collator.h"

namespace lockstep {

struct LanguageModelingOptions {
  /// True: tokens are masked and the model predicts them (BERT). False: the model predicts each next token (GPT-2).
  bool mlm = false;
  double mlm_probability = 0.15;    ///< share of the tokens that the model must predict
  double mask_probability = 0.8;    ///< share of those that become the mask token
  double random_probability = 0.1;  ///< share of those that become a random token; the rest stay as they are
  std::uint64_t seed = 0;           ///< seed of the masks
  Padding padding{};
};

/// Batches for language modelling: pads as DataCollatorWithPadding does, and makes "labels" [batch, length].
///
/// Causal: the labels are the input ids, and -100 at padding; the model shifts them. The attention mask decides what is
/// padding, not the padding token: a text's own end-of-text token counts even if it is also the padding token. (Hugging
/// Face's collator leaves it out.)
///
/// Masked (Devlin et al., 2019, arXiv:1810.04805, section 3.1): the labels are the ids of the chosen tokens, and -100
/// elsewhere. Special tokens are never chosen: "special_tokens_mask" marks them if samples have it, else the
/// tokenizer's list does. The choice depends on the seed, the epoch and the sample's tokens alone: it is the same for
/// any number of ranks and workers, for any batch size, and after a restart.
///
/// Copies share the epoch. Several threads may use one collator. Call `set_epoch` before the epoch's loop.
class DataCollatorForLanguageModeling {
 public:
  /// @throws Error  as DataCollatorWithPadding; for mlm, if the tokenizer has no mask token, or a probability is not
  /// between 0 and 1
  explicit DataCollatorForLanguageModeling(const Tokenizer& tokenizer, const LanguageModelingOptions& options = {});

  /// Chooses the masks of the epoch; they differ from epoch to epoch. Call it together with the sampler's `set_epoch`.
  void set_epoch(std::int64_t epoch) const { epoch_->store(epoch); }

  /// Drops labels that samples already have. @throws Error  as DataCollatorWithPadding
  Batch operator()(std::vector<Example> examples) const;

 private:
  void mask(std::int64_t* ids, std::int64_t* labels, const std::int64_t* attention, const std::int64_t* special,
            std::int64_t count) const;

  DataCollatorWithPadding pad_;
  LanguageModelingOptions options_;
  std::int64_t mask_id_ = -1;
  std::int64_t vocab_size_;
  std::unordered_set<std::int64_t> special_ids_;
  std::shared_ptr<std::atomic<std::int64_t>> epoch_;
};

}  // namespace lockstep
