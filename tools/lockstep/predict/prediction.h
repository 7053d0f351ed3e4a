// The tasks of `lockstep predict`, by what the model was trained for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/frame/command_streams.h"
#include "tools/lockstep/flags/table_flags.h"

namespace lockstep {

/// A text to predict for, or a pair of texts.
struct PredictedText {
  std::string text;
  std::optional<std::string> second;
  std::string where = {};  ///< file and line, for errors
  /// As it is printed: a tab parts a pair.
  std::string shown() const { return second ? text + "\t" + *second : text; }
};

/// The flags of `lockstep predict`.
struct PredictFlags {
  std::string task;
  std::string model;
  std::string tokenizer;
  std::string file;
  std::vector<std::string> text_columns;  ///< of a table of texts; empty: the usual ones
  TableFlags table;                       ///< how a table of texts is written
  std::int64_t batch_size = 32;
  std::int64_t max_length = 0;
  std::optional<std::int64_t> max_new_tokens;  ///< see generation_settings
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::uint64_t seed = 42;
  bool json = false;
  std::string output_file;  ///< empty: standard output
};

/// The treatment of a text without a letter: if it has no answer, it is skipped, and counted in a warning.
enum class BlankTexts { Skip, Keep };
using AnswerTexts = std::function<void(const std::vector<PredictedText>&)>;

/// Calls `answer` with the rows of the table that --file names, or with its lines, or those of `streams.in`: a batch at
/// a time, or one at a time if a person types them. A tab in a line parts a pair.
/// @throws Error  if the file cannot be read; with the line's number, for invalid UTF-8 or a NUL
/// @throws UsageError  if it is a table, and no flag or usual name says which column holds the text
void read_texts(const PredictFlags& flags, const CommandStreams& streams, BlankTexts blank_texts,
                const AnswerTexts& answer);

/// Labels of texts, or of pairs with a tab between.
void predict_labels_of_texts(const PredictFlags& flags, const CommandStreams& streams);
/// The vector of each text.
void predict_vectors_of_texts(const PredictFlags& flags, const CommandStreams& streams);
/// GPT-2: continues texts. BERT: names the words for each [MASK].
void predict_language(const PredictFlags& flags, const CommandStreams& streams);
/// Labels of the images of an IDX file, or of a folder's test images.
void predict_labels_of_images(const PredictFlags& flags, const CommandStreams& streams);
/// Labels of the rows of a table.
void predict_labels_of_rows(const PredictFlags& flags, const CommandStreams& streams);

}  // namespace lockstep
