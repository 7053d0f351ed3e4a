#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/text/encoding.h"
#include "lockstep/data/text/token_id.h"

namespace lockstep {

/// The tokens with a meaning of their own, by the name that Hugging Face's configuration gives each; unset where the
/// tokenizer has none.
struct SpecialTokens {
  std::optional<std::string> unk;
  std::optional<std::string> pad;
  std::optional<std::string> cls;
  std::optional<std::string> sep;
  std::optional<std::string> mask;
  std::optional<std::string> bos;
  std::optional<std::string> eos;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
  /// Whether blanks before punctuation and contractions are taken out. Unset: what the tokenizer's own decoder
  /// declares. Set: over the whole text, as `clean_up_tokenization_spaces` does in Python.
  std::optional<bool> clean_up;
};

/// Text to ids and back: BERT's WordPiece, GPT-2's and RoBERTa's byte-level BPE. The ids are those of Hugging Face's
/// tokenizers.
///
/// Immutable and thread-safe but for the `set_` functions, which belong before the first use. Copies share the tables.
/// Bytes that are no UTF-8 are taken as U+FFFD each maximal part, as Python's `bytes.decode(errors="replace")` does;
/// BERT's clean-up then drops them.
///
///     const Tokenizer tokenizer = load_tokenizer("bert-base-uncased");
///     const Encoding encoding = tokenizer.encode("How are you?");
class Tokenizer {
 public:
  /// The tables behind it. Internal.
  class Core;
  explicit Tokenizer(std::shared_ptr<const Core> core);

  /// Encodes one text.
  /// @throws Error  if the text has 2^31 bytes or more, if truncation cannot reach its length, or if padding is asked
  ///                for and there is no padding token
  Encoding encode(std::string_view text, const EncodeOptions& options) const;
  Encoding encode(std::string_view text) const { return encode(text, default_options()); }

  /// Encodes a pair of texts. Throws as `encode`.
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const;
  Encoding encode_pair(std::string_view first, std::string_view second) const {
    return encode_pair(first, second, default_options());
  }

  /// Encodes many texts on `threads` threads (0: one for each core that this process may use). The result is in the
  /// order of the texts, and the same for any number of threads. Throws as `encode`, naming the first text that failed.
  std::vector<Encoding> encode_batch(const std::vector<std::string_view>& texts, const EncodeOptions& options,
                                     int threads = 0) const;
  std::vector<Encoding> encode_pair_batch(const std::vector<std::pair<std::string_view, std::string_view>>& pairs,
                                          const EncodeOptions& options, int threads = 0) const;

  /// Appends the ids of `text` without special tokens around them: the fastest way in, for language modelling.
  void append_ids(std::string_view text, std::vector<TokenId>& ids) const;

  /// The text that `ids` stand for. Bytes that are no UTF-8 become U+FFFD.
  /// @throws Error  if an id is not in the vocabulary
  std::string decode(const std::vector<TokenId>& ids, const DecodeOptions& options = {}) const;

  /// Number of ids that a model's embedding must cover: one more than the highest id.
  std::int64_t vocab_size() const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  /// @throws Error  if `id` is not in the vocabulary
  std::string id_to_token(TokenId id) const;

  const SpecialTokens& special_tokens() const { return special_; }
  /// Ids of the special tokens; nothing where there is none.
  std::optional<TokenId> unk_id() const { return id_of(special_.unk); }
  std::optional<TokenId> pad_id() const { return id_of(special_.pad); }
  std::optional<TokenId> cls_id() const { return id_of(special_.cls); }
  std::optional<TokenId> sep_id() const { return id_of(special_.sep); }
  std::optional<TokenId> mask_id() const { return id_of(special_.mask); }
  std::optional<TokenId> bos_id() const { return id_of(special_.bos); }
  std::optional<TokenId> eos_id() const { return id_of(special_.eos); }
  /// Makes `token` the padding token: GPT-2 has none of its own, and is usually padded with "<|endoftext|>".
  /// @throws Error  if the vocabulary lacks it
  void set_pad_token(const std::string& token);

  /// What `encode` does when it is not told: special tokens, and the truncation and padding that tokenizer.json
  /// declares.
  const EncodeOptions& default_options() const { return defaults_; }
  void set_default_options(const EncodeOptions& options) { defaults_ = options; }
  /// The longest input of the model that the tokenizer belongs to, where its configuration says so.
  std::optional<std::int64_t> model_max_length() const;

  /// All that decides about the ids, as text: where it is equal, so are the ids. For digests.
  std::string to_json() const;

  /// The files of the tokenizer's folder, by name, as `save` writes them: for those who write them in their own way.
  std::map<std::string, std::string> files() const;

  /// Writes the tokenizer to the folder `dir`, which is made if it does not exist: `tokenizer.json`,
  /// `tokenizer_config.json`, and `vocab.txt` or `vocab.json` and `merges.txt`. `load_tokenizer` and Hugging Face's
  /// library read them.
  /// @throws Error  with path and cause
  void save(const std::string& dir) const;

 private:
  void pad(const EncodeOptions& options, Encoding* encodings, std::size_t count) const;
  std::optional<TokenId> id_of(const std::optional<std::string>& token) const;

  std::shared_ptr<const Core> core_;
  SpecialTokens special_;
  EncodeOptions defaults_;
};

/// Loads the tokenizer of a Hugging Face folder: `tokenizer.json`, else `vocab.txt` (BERT), else `vocab.json` or
/// `encoder.json` with `merges.txt` or `vocab.bpe` (GPT-2, RoBERTa). `tokenizer_config.json`, `special_tokens_map.json`
/// and `added_tokens.json` are honoured where they stand.
/// @throws Error  with file and line: a file is missing or malformed, or declares what is not supported
Tokenizer load_tokenizer(const std::string& dir);

/// Loads `tokenizer.json` alone.
/// @throws Error  as `load_tokenizer`
Tokenizer load_tokenizer_json(const std::string& path);

/// Switches for `load_bert_vocabulary`, with the names of tokenizer_config.json.
struct BertTokenizerOptions {
  bool do_lower_case = true;
  bool tokenize_chinese_chars = true;
  std::optional<bool> strip_accents;     ///< unset: as `do_lower_case`
  std::vector<std::string> never_split;  ///< words between white space that stay whole and as they are
};

/// Makes a BERT tokenizer from `vocab.txt` alone.
/// @throws Error  as `load_tokenizer`, or if [UNK], [CLS] or [SEP] is missing
Tokenizer load_bert_vocabulary(const std::string& path, const BertTokenizerOptions& options = {});

}  // namespace lockstep
