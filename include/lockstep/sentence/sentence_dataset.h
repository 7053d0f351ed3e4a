#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text_dataset.h"
#include "lockstep/data/tokenized_dataset.h"

namespace lockstep {

/// Rows of several texts, each tokenized on its own, for models that compare their vectors: "input_ids_0" [n],
/// "input_ids_1" [m], ... int64, one for each field of the rows; "texts" [fields] int64, a number for each text, equal
/// for equal tokens; and "labels" [] int64 if the rows have labels. Give the loader a SentenceCollator.
class SentenceDataset : public Dataset {
 public:
  /// @throws Error  as `tokenize`; if the rows have one field
  SentenceDataset(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options = {});

  std::int64_t size() const override { return columns_.front()->size(); }
  /// Tokens of the longest text of each sample, for LengthGroupedSampler.
  std::vector<std::int64_t> lengths() const;

 private:
  Example do_get(std::int64_t index) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;

  std::vector<std::shared_ptr<const TokenizedDataset>> columns_;
};

/// Batches of such samples, padded field by field: "input_ids_0" and "attention_mask_0" [size, length], and so on;
/// "texts" [size, fields]; "labels" [size], which are "texts" if the samples have no labels.
class SentenceCollator {
 public:
  /// @throws Error  if the tokenizer has no padding token
  explicit SentenceCollator(const Tokenizer& tokenizer) : pad_(tokenizer) {}
  /// @throws Error  if a sample has other fields than the first
  Batch operator()(std::vector<Example> examples) const;

 private:
  DataCollatorWithPadding pad_;
};

}  // namespace lockstep
