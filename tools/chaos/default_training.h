#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace lockstep {

/// What `lockstep chaos` disturbs if no training is named: a small one, with checkpoints and evaluations, on the data
/// of a checkout.
inline std::vector<std::string> default_training() {
  std::istringstream text(
      "lockstep train --task text-classification --model bert-tiny --tokenizer data/reviews-vocab "
      "--train-file data/reviews.csv --validation-file data/reviews-test.csv --label-column division "
      "--max-length 32 --per-device-train-batch-size 4 --max-steps 600 --logging-steps 5 --save-steps 150 "
      "--eval-strategy steps --eval-steps 200 --max-eval-samples 40");
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace lockstep
