#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"

namespace lockstep {

/// The rows of a file, tokenized, for a text model: with labels if it classifies.
class VerificationTexts {
 public:
  struct Source {
    std::string path;
    std::string tokenizer;            ///< folder
    std::string text;                 ///< column; empty: the usual name
    std::string label;                ///< column, only used by classifiers; empty: label
    std::vector<std::string> labels;  ///< the model's names; empty: the file's own
    TextTask task = TextTask::SequenceClassification;
    std::int64_t max_length = 0;  ///< tokens of the longest text; 0: 64
  };

  /// @throws Error  if the file, the tokenizer or a column cannot be read
  explicit VerificationTexts(const Source& source);

  /// The options that a new model needs for these texts.
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
