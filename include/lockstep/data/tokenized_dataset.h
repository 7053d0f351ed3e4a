#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text_dataset.h"
#include "lockstep/detail/data/text/encoding.h"

namespace lockstep {

class TokenTable;

struct TokenizeOptions {
  bool add_special_tokens = true;
  bool append_eos = false;  ///< adds the tokenizer's end-of-text token, so that a language model learns to stop
  /// Longest sample in tokens, special ones included; at most the number of the model's positions. Unset: the
  /// tokenizer's `model_max_length`, if it has one.
  std::optional<std::int64_t> max_length;
  bool truncation = false;  ///< shorten longer texts; false: longer texts are errors, with file and row
  TruncationStrategy strategy = TruncationStrategy::LongestFirst;
  std::optional<SequenceSide> truncation_side{};  ///< unset: as the tokenizer's files declare, else Right
  int threads = 0;                                ///< 0: one for each core that this process may use

  /// A folder for the result, created if it does not exist; empty: memory holds the tokens and no file is written. The
  /// file's name is a digest of the rows' content, the tokenizer and these options, so a file is used again exactly if
  /// making it again would give an equal file. It is verified when it is opened, and a damaged file is replaced. Ranks
  /// that share the folder tokenize once: one does it, the others wait.
  std::string cache_dir;
  double cache_timeout_s = 1800.0;  ///< longest wait for another process that makes that file
};

/// Texts as token ids, ready for a collator: "input_ids" [n] int64, "attention_mask" [n] int64 of ones, "labels" []
/// int64 if the rows have labels, and "token_type_ids" [n] int64 if any sample has a token of type 1, as BERT's pairs
/// do. Samples differ in length: give the loader a DataCollatorWithPadding.
class TokenizedDataset : public Dataset {
 public:
  explicit TokenizedDataset(TokenTable table);

  std::int64_t size() const override;
  /// Tokens of each sample, for LengthGroupedSampler.
  std::vector<std::int64_t> lengths() const;
  std::int64_t num_tokens() const;
  bool has_labels() const;
  /// The label of each sample; empty if there are none.
  std::vector<std::int64_t> labels() const;
  bool has_token_types() const;

 private:
  Example do_get(std::int64_t index) const override;
  bool do_write_digests(at::IntArrayRef indices, std::uint64_t* digests) const override;

  std::shared_ptr<const TokenTable> table_;
};

/// Tokenizes all rows on several threads: single texts if they have one field, pairs if they have two. Use
/// `sample_rows` first if a part is enough.
/// @throws Error  if rows have more than two fields, or there are no rows; with file and row, if a text is longer than
/// `max_length` without truncation, truncation cannot shorten it enough, or the result is empty; if the cache cannot be
/// written
std::shared_ptr<const TokenizedDataset> tokenize(const TextDataset& rows, const Tokenizer& tokenizer,
                                                 const TokenizeOptions& options = {});

/// The file in `options.cache_dir` that `tokenize` would use.
std::string token_cache_path(const TextDataset& rows, const Tokenizer& tokenizer, const TokenizeOptions& options);

}  // namespace lockstep
