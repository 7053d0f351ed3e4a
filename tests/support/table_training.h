#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A CSV file of `rows` rows with a number, a colour and a label, which is "tall" or "short".
inline std::string table_text(int rows) {
  std::string text = "height,colour,label\n";
  for (int i = 0; i < rows; ++i) {
    text += std::to_string(i % 17) + (i % 3 == 0 ? ",red," : ",blue,") + (i % 17 > 8 ? "tall\n" : "short\n");
  }
  return text;
}

/// The words behind `lockstep` that train an mlp on such a file, and `more` words.
inline std::vector<std::string> table_training(const std::string& file, const std::string& output,
                                               const std::vector<std::string>& more) {
  std::vector<std::string> words{"train",        "--task", "tabular-classification", "--model", "mlp",
                                 "--train-file", file,     "--output-dir",           output};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace lockstep
