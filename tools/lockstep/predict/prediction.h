// The tasks of `lockstep predict`, by what the model was trained for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// The flags of `lockstep predict`.
struct PredictFlags {
  std::string task;
  std::string model;
  std::string tokenizer;
  std::string file;
  std::int64_t batch_size = 32;
  std::int64_t max_length = 0;
  std::int64_t max_new_tokens = 20;
  double temperature = 0;
  std::int64_t top_k = 50;
  std::uint64_t seed = 42;
  bool json = false;

  /// The treatment of a line without a letter: if it has no answer, it is skipped, and counted in a warning.
  enum class BlankLines { Skip, Keep };
  /// Calls `answer` with the lines of --file, or of standard input: a batch at a time, or one at a time if a person
  /// types them.
  /// @throws Error  if the file cannot be read; with the line's number, for invalid UTF-8 or a NUL
  void read_lines(BlankLines blank_lines, const std::function<void(const std::vector<std::string>&)>& answer) const;
};

/// Labels of texts, or of pairs with a tab between.
void predict_labels_of_texts(const PredictFlags& flags);
/// GPT-2: continues texts. BERT: names the words for each [MASK].
void predict_language(const PredictFlags& flags);
/// Labels of the images of an IDX file, or of a folder's test images.
void predict_labels_of_images(const PredictFlags& flags);
/// Labels of the rows of a table.
void predict_labels_of_rows(const PredictFlags& flags);

}  // namespace lockstep
