#include "lockstep/models/next_token_loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "lockstep/models/loss.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {

LossSum next_token_loss(const at::Tensor& scores, const at::Tensor& labels, const std::string& model,
                        double smoothing) {
  // Moving the labels leaves the scores, which are large, where they are.
  const at::Tensor last = at::full({labels.size(0), 1}, kIgnoreIndex, labels.options());
  const at::Tensor next = at::cat({labels.slice(1, 1), last}, 1);
  return cross_entropy_sum(scores.flatten(0, -2), next.flatten(), model, smoothing);
}

Batch random_texts_to_predict(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                              std::int64_t pad_token_id, const std::string& model) {
  Batch batch = random_texts(options, vocab_size, max_positions, pad_token_id, model);
  batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"].eq(0), kIgnoreIndex);
  return batch;
}

}  // namespace lockstep
