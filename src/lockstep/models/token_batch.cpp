#include "lockstep/models/token_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/random_tensors.h"

namespace lockstep {
namespace {

constexpr std::int64_t kDefaultLength = 128;
constexpr double kMaskedShare = 0.15;

at::Tensor optional_field(const Batch& batch, const char* name) {
  const auto found = batch.find(name);
  return found == batch.end() ? at::Tensor() : found->second;
}

}  // namespace

TokenInputs token_inputs_of(const Batch& batch, const std::string& model) {
  TokenInputs inputs;
  inputs.input_ids = batch_field(batch, "input_ids", model + ", which takes tokenized texts");
  inputs.attention_mask = optional_field(batch, "attention_mask");
  inputs.token_type_ids = optional_field(batch, "token_type_ids");
  inputs.position_ids = optional_field(batch, "position_ids");
  return inputs;
}

Batch random_texts(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                   std::int64_t pad_token_id, const std::string& model) {
  const std::int64_t length =
      options.sequence_length > 0 ? options.sequence_length : std::min(kDefaultLength, max_positions);
  if (options.sequence_length < 0 || length > max_positions) {
    throw Error(fmt::format("texts of {} tokens were asked for, but the model has {} positions",
                            options.sequence_length, max_positions),
                model, fmt::format("ask for 1 to {} tokens", max_positions));
  }
  RandomTensors random(options, model);
  at::Tensor ids = random.integers({options.size, length}, vocab_size);
  at::Tensor mask = at::ones({options.size, length}, at::kLong);
  if (options.mixed_lengths) {
    const at::Tensor lengths = random.integers({options.size, 1}, length + 1, 1);
    mask = at::arange(length).unsqueeze(0).lt(lengths).to(at::kLong);
    ids = ids.masked_fill(mask.eq(0), pad_token_id);
  }
  return {{"input_ids", ids}, {"attention_mask", mask}};
}

Batch random_masked_texts(const RandomBatchOptions& options, std::int64_t vocab_size, std::int64_t max_positions,
                          std::int64_t pad_token_id, const std::string& model) {
  Batch batch = random_texts(options, vocab_size, max_positions, pad_token_id, model);
  const at::Tensor& ids = batch["input_ids"];
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  at::Tensor is_asked = RandomTensors(of_labels, model).uniform(ids.sizes()).lt(kMaskedShare);
  is_asked.select(1, 0).fill_(true);  // every text has at least one masked word
  batch["labels"] = ids.masked_fill(is_asked.logical_and(batch["attention_mask"].ne(0)).logical_not(), kIgnoreIndex);
  return batch;
}

}  // namespace lockstep
