#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/text/encoders/bert_normalizer.h"

namespace lockstep {

struct WordPieceTrainerOptions {
  std::int64_t vocab_size = 30522;     ///< maximum number of tokens, special ones included
  std::int64_t min_frequency = 2;      ///< pieces that occur less often are not joined
  std::int64_t limit_alphabet = 1000;  ///< maximum number of characters, the most frequent ones; others become [UNK]
  text::BertNormalizerOptions normalizer;
};

/// Learns a WordPiece vocabulary from text, as Hugging Face's `BertWordPieceTokenizer.train` does: words are split into
/// characters, and the two neighbours that occur together most often become one piece, repeatedly (Sennrich et al.,
/// 2016). Deterministic: the result depends only on the words and their counts, not on the order of the texts.
class WordPieceTrainer {
 public:
  /// @throws Error  if a number in `options` is negative
  explicit WordPieceTrainer(const WordPieceTrainerOptions& options = {});

  /// Counts the words of `text`, except those of more than 100 characters, which are [UNK] in any case. Invalid UTF-8
  /// counts as U+FFFD.
  void add(std::string_view text);

  /// The vocabulary by number: [PAD], [UNK], [CLS], [SEP], [MASK], characters, pieces in the order in which they were
  /// joined.
  /// @throws Error  if no word was counted, or if there are more characters than `vocab_size`
  std::vector<std::string> train() const;

  /// How many different words were counted.
  std::size_t words() const { return counts_.size(); }

 private:
  WordPieceTrainerOptions options_;
  text::BertNormalizer normalizer_;
  std::unordered_map<std::string, std::int64_t> counts_;
};

}  // namespace lockstep
