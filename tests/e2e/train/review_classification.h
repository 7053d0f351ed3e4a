#pragma once

// The command that most tests of `lockstep train` run.
#include <string>
#include <vector>

namespace lockstep {

/// Trains a small BERT to tell positive, neutral and negative reviews apart, on those that the project ships. `more`
/// has further flags, such as how long.
inline std::vector<std::string> review_classification(const std::string& output, const std::vector<std::string>& more) {
  const std::string data = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
  std::vector<std::string> words{std::string(LOCKSTEP_BIN_DIR) + "/lockstep",
                                 "train",
                                 "--task",
                                 "text-classification",
                                 "--model",
                                 "bert-tiny",
                                 "--tokenizer",
                                 data + "reviews-vocab",
                                 "--train-file",
                                 data + "reviews.csv",
                                 "--label-column",
                                 "division",
                                 "--output-dir",
                                 output};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace lockstep
