#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"

namespace lockstep {

/// The rows of a file, tokenized, for a registered text model: reviews with labels for BERT, texts for GPT-2.
class VerificationTexts {
 public:
  struct Columns {
    std::string tokenizer;  ///< folder
    std::string text;
    std::string label;  ///< only used by classifiers
  };

  /// @param max_length  tokens of the longest text; 0: 64
  /// @throws Error  if the file, the tokenizer or a column cannot be read, or a model of that name takes no texts
  VerificationTexts(const std::string& model, const std::string& path, const Columns& columns, std::int64_t max_length);

  /// The options that the model needs for these texts.
  const ModelOptions& model_options() const { return model_options_; }
  /// The `step`th batch, padded. @throws Error  if the file ends earlier
  Batch batch(std::int64_t size, int step) const;

 private:
  std::string path_;
  ModelOptions model_options_;
  std::shared_ptr<const TokenizedDataset> dataset_;
  std::function<Batch(std::vector<Example>)> collate_;
};

}  // namespace lockstep
