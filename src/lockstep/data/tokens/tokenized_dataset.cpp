#include "lockstep/data/tokenized_dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>

#include <utility>

#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/data/tokens/token_table.h"

namespace lockstep {

TokenizedDataset::TokenizedDataset(TokenTable table) : table_(std::make_shared<const TokenTable>(std::move(table))) {}

std::int64_t TokenizedDataset::size() const { return table_->size(); }

std::int64_t TokenizedDataset::num_tokens() const { return table_->num_tokens(); }

bool TokenizedDataset::has_labels() const { return table_->has_labels(); }

bool TokenizedDataset::has_token_types() const { return table_->has_token_types(); }

std::vector<std::int64_t> TokenizedDataset::lengths() const {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) lengths[i] = table_->sample(i).count;
  return lengths;
}

std::vector<std::int64_t> TokenizedDataset::labels() const {
  std::vector<std::int64_t> labels(has_labels() ? static_cast<std::size_t>(size()) : 0);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = table_->label(static_cast<std::int64_t>(i));
  table_->require_whole();
  return labels;
}

Example TokenizedDataset::do_get(std::int64_t index) const {
  const TokenTable::Sample sample = table_->sample(index);
  Example example;
  at::Tensor& ids = example["input_ids"] = at::empty({sample.count}, at::kLong);
  auto* id = ids.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < sample.count; ++i) id[i] = sample.tokens[i] & ~TokenTable::kTypeBit;
  example["attention_mask"] = at::ones({sample.count}, at::kLong);
  if (has_token_types()) {
    at::Tensor& types = example["token_type_ids"] = at::empty({sample.count}, at::kLong);
    auto* type = types.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < sample.count; ++i) type[i] = sample.tokens[i] >> 31;
  }
  if (has_labels()) example["labels"] = at::scalar_tensor(table_->label(index), at::kLong);
  table_->require_whole();
  return example;
}

bool TokenizedDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const TokenTable::Sample sample = table_->sample(indices[i]);
    const auto bytes = static_cast<std::size_t>(sample.count) * sizeof(*sample.tokens);
    const std::uint64_t label = has_labels() ? static_cast<std::uint64_t>(table_->label(indices[i])) + 1 : 0;
    digests[i] = hash_bytes(sample.tokens, bytes, label);
  }
  table_->require_whole();
  return true;
}

}  // namespace lockstep
