#include "lockstep/sentence/sentence_dataset.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/data/images/split_mix.h"
#include "lockstep/tensor/numbered_field.h"

namespace lockstep {
namespace {

// One field of other rows. Only the first one brings the labels.
class TextColumn : public TextDataset {
 public:
  TextColumn(const TextDataset& rows, std::size_t field)
      : TextDataset(info_of(rows, field)), rows_(rows), field_(field) {}

  std::int64_t size() const override { return rows_.size(); }

 private:
  static TextDatasetInfo info_of(const TextDataset& rows, std::size_t field) {
    TextDatasetInfo info = rows.info();
    info.fields = {info.fields[field]};
    if (field == 0) return info;
    info.has_labels = false;
    info.labels.clear();
    return info;
  }

  TextRow do_get(std::int64_t index) const override {
    TextRow row = rows_.get(index);
    row.texts = {std::move(row.texts[field_])};
    if (field_ > 0) row.label.reset();
    return row;
  }
  std::string do_where(std::int64_t index) const override { return rows_.where(index); }
  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized("one field");
    digest.update_sized(rows_.digest());
    digest.update_number(static_cast<std::int64_t>(field_));
    return digest.hex();
  }

  const TextDataset& rows_;
  std::size_t field_;
};

std::int64_t number_of(const at::Tensor& ids) {
  std::uint64_t state = static_cast<std::uint64_t>(ids.numel());
  const auto* id = ids.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) state = SplitMix(state ^ static_cast<std::uint64_t>(id[i])).next();
  return static_cast<std::int64_t>(state);
}

}  // namespace

SentenceDataset::SentenceDataset(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (rows.fields().size() < 2) {
    throw Error("there is only one text column, \"" + rows.fields().front() + "\"", "SentenceDataset",
                "read two columns or more: texts are compared with each other");
  }
  for (std::size_t field = 0; field < rows.fields().size(); ++field) {
    columns_.push_back(tokenize(TextColumn(rows, field), tokenizer, options));
  }
}

std::vector<std::int64_t> SentenceDataset::lengths() const {
  std::vector<std::int64_t> longest = columns_.front()->lengths();
  for (const auto& column : columns_) {
    const std::vector<std::int64_t> lengths = column->lengths();
    for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = std::max(longest[i], lengths[i]);
  }
  return longest;
}

Example SentenceDataset::do_get(std::int64_t index) const {
  Example example;
  at::Tensor texts = at::empty({static_cast<std::int64_t>(columns_.size())}, at::kLong);
  for (std::size_t text = 0; text < columns_.size(); ++text) {
    Example of_column = columns_[text]->get(index);
    const at::Tensor& ids = of_column.at("input_ids");
    texts.data_ptr<std::int64_t>()[text] = number_of(ids);
    example[numbered_field("input_ids", text)] = ids;
    if (const auto label = of_column.find("labels"); label != of_column.end()) example["labels"] = label->second;
  }
  example["texts"] = texts;
  return example;
}

bool SentenceDataset::do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const {
  std::fill_n(digests, indices.size(), 0);
  std::vector<std::uint64_t> of_column(indices.size());
  for (const auto& column : columns_) {
    if (!column->write_digests(indices, of_column.data())) return false;
    for (std::size_t i = 0; i < indices.size(); ++i) mix_into(digests[i], of_column[i]);
  }
  return true;
}

Batch SentenceCollator::operator()(std::vector<Example> examples) const {
  Batch batch;
  for (std::size_t text = 0;; ++text) {
    const std::string name = numbered_field("input_ids", text);
    if (examples.empty() || examples.front().count(name) == 0) break;
    std::vector<Example> of_text;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto ids = examples[i].find(name);
      if (ids == examples[i].end()) {
        throw Error("the sample has no \"" + name + "\", and the first of the batch has",
                    fmt::format("sample {} of the batch", i), "give all samples the same fields");
      }
      of_text.push_back({{"input_ids", ids->second}});
      examples[i].erase(ids);
    }
    Batch padded = pad_(std::move(of_text));
    batch[name] = padded.at("input_ids");
    batch[numbered_field("attention_mask", text)] = padded.at("attention_mask");
  }
  batch.merge(stack_examples(examples));
  if (batch.count("labels") == 0 && batch.count("texts") != 0) batch["labels"] = batch["texts"];
  return batch;
}

}  // namespace lockstep
