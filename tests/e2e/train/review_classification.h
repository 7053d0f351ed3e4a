#pragma once

// The commands that most tests of `lockstep train` run.
#include <string>
#include <vector>

namespace lockstep {

/// `words`, and then `more`.
inline std::vector<std::string> joined_words(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Trains a small BERT with random weights to classify the texts of `train_file`. `more` has further flags, such as how
/// long.
inline std::vector<std::string> text_classification(const std::string& train_file, const std::string& output,
                                                    const std::vector<std::string>& more) {
  return joined_words({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "train", "--task", "text-classification", "--model",
                       "bert-tiny", "--tokenizer", std::string(LOCKSTEP_SOURCE_DIR) + "/data/reviews-vocab",
                       "--train-file", train_file, "--output-dir", output},
                      more);
}

/// The same with positive, neutral and negative reviews, which the project ships.
inline std::vector<std::string> review_classification(const std::string& output, const std::vector<std::string>& more) {
  return text_classification(std::string(LOCKSTEP_SOURCE_DIR) + "/data/reviews.csv", output,
                             joined_words({"--label-column", "division"}, more));
}

/// `words` as `lockstep run` starts them, on two ranks.
inline std::vector<std::string> on_two_ranks(const std::vector<std::string>& words) {
  return joined_words({std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "run", "--nproc-per-node", "2"}, words);
}

}  // namespace lockstep
