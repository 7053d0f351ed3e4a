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

#include "lockstep/detail/data/text/encoding.h"
#include "lockstep/detail/data/text/token_id.h"

namespace lockstep {
namespace text {

class TokenizerCore;

}  // namespace text

/// The tokens with a special meaning, under the names of Hugging Face's configuration; unset if the tokenizer does not
/// have them.
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
  /// Whether blanks before punctuation and contractions are removed. Unset: as the tokenizer's files declare.
  /// Set: in the whole text, as with Python's `clean_up_tokenization_spaces`.
  std::optional<bool> clean_up;
};

/// Text to ids and back: BERT's WordPiece, GPT-2's and RoBERTa's byte-level BPE. The ids equal those of Hugging Face's
/// tokenizers.
///
/// Immutable and thread-safe, except for the `set_` functions; call these before the first use. Copies share the
/// tables. Each maximal part of invalid UTF-8 is read as U+FFFD, as by Python's `bytes.decode(errors="replace")`;
/// BERT's clean-up then drops it.
///
///     const Tokenizer tokenizer = load_tokenizer("bert-base-uncased");
///     const Encoding encoding = tokenizer.encode("How are you?");
class Tokenizer {
 public:
  /// Encodes one text.
  /// @throws Error  if the text has 2^31 bytes or more, if truncation cannot reach its length, or if padding is
  /// requested and there is no padding token
  Encoding encode(std::string_view text, const EncodeOptions& options) const;
  Encoding encode(std::string_view text) const { return encode(text, default_options()); }

  /// Encodes a pair of texts. Throws as `encode`.
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const;
  Encoding encode_pair(std::string_view first, std::string_view second) const {
    return encode_pair(first, second, default_options());
  }

  /// Encodes many texts on `threads` threads (0: one for each core that this process may use). The result is in the
  /// order of the texts and does not depend on the number of threads. Throws as `encode`, naming the first text that
  /// failed.
  std::vector<Encoding> encode_batch(const std::vector<std::string_view>& texts, const EncodeOptions& options,
                                     int threads = 0) const;
  std::vector<Encoding> encode_pair_batch(const std::vector<std::pair<std::string_view, std::string_view>>& pairs,
                                          const EncodeOptions& options, int threads = 0) const;

  /// Appends the ids of `text` without special tokens around them: the fastest function, for language modelling.
  void append_ids(std::string_view text, std::vector<TokenId>& ids) const;

  /// The text of `ids`. Invalid UTF-8 becomes U+FFFD.
  /// @throws Error  if an id is not in the vocabulary
  std::string decode(const std::vector<TokenId>& ids, const DecodeOptions& options = {}) const;

  /// Number of ids that a model's embedding must cover: one more than the highest id.
  std::int64_t vocab_size() const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  /// @throws Error  if `id` is not in the vocabulary
  std::string id_to_token(TokenId id) const;

  const SpecialTokens& special_tokens() const { return special_; }
  /// Ids of the special tokens; nothing for a token that the tokenizer does not have.
  std::optional<TokenId> unk_id() const { return id_of(special_.unk); }
  std::optional<TokenId> pad_id() const { return id_of(special_.pad); }
  std::optional<TokenId> cls_id() const { return id_of(special_.cls); }
  std::optional<TokenId> sep_id() const { return id_of(special_.sep); }
  std::optional<TokenId> mask_id() const { return id_of(special_.mask); }
  std::optional<TokenId> bos_id() const { return id_of(special_.bos); }
  std::optional<TokenId> eos_id() const { return id_of(special_.eos); }
  /// Makes `token` the padding token. GPT-2 has none, and is usually padded with "<|endoftext|>".
  /// @throws Error  if the vocabulary does not contain it
  void set_pad_token(const std::string& token);

  /// The options of `encode` without the argument `options`: special tokens, and the truncation and padding that
  /// tokenizer.json declares.
  const EncodeOptions& default_options() const { return defaults_; }
  void set_default_options(const EncodeOptions& options) { defaults_ = options; }
  /// The longest input of the tokenizer's model in tokens, if its configuration declares it. Nothing is cut unless a
  /// caller asks for truncation to that length.
  const std::optional<std::int64_t>& model_max_length() const { return model_max_length_; }
  /// @throws Error  if `tokens` is not positive
  void set_model_max_length(std::int64_t tokens);
  /// The end at which texts are cut by a Truncation without a side: `truncation_side` of tokenizer_config.json, else
  /// the direction that tokenizer.json declares, else Right.
  SequenceSide truncation_side() const;

  /// Everything that affects the ids, as text: equal texts mean equal ids. For digests.
  std::string to_json() const;

  /// The files of the tokenizer's folder, by name, with the content that `save` writes: for callers that write them
  /// themselves.
  std::map<std::string, std::string> files() const;

  /// Writes the tokenizer to the folder `dir`, which is created if it does not exist: `tokenizer.json`,
  /// `tokenizer_config.json`, and `vocab.txt` or `vocab.json` and `merges.txt`. `load_tokenizer` and Hugging Face's
  /// library can read them.
  /// @throws Error  with path and cause
  void save(const std::string& dir) const;

 private:
  friend class text::TokenizerCore;  // makes it

  explicit Tokenizer(std::shared_ptr<const text::TokenizerCore> core);

  void pad(const EncodeOptions& options, Encoding* encodings, std::size_t count) const;
  EncodeOptions completed(EncodeOptions options) const;
  std::optional<TokenId> id_of(const std::optional<std::string>& token) const;

  std::shared_ptr<const text::TokenizerCore> core_;
  SpecialTokens special_;
  EncodeOptions defaults_;
  std::optional<std::int64_t> model_max_length_;
};

/// Loads the tokenizer of a Hugging Face folder: `tokenizer.json`, else `vocab.txt` (BERT), else `vocab.json` or
/// `encoder.json` with `merges.txt` or `vocab.bpe` (GPT-2, RoBERTa). `tokenizer_config.json`, `special_tokens_map.json`
/// and `added_tokens.json` are read if they exist.
/// @throws Error  with file and line, if a file is missing or malformed, or declares something that is not supported
Tokenizer load_tokenizer(const std::string& dir);

/// Loads only `tokenizer.json`.
/// @throws Error  as `load_tokenizer`
Tokenizer load_tokenizer_json(const std::string& path);

/// Options of `load_bert_vocabulary`, under the names of tokenizer_config.json.
struct BertTokenizerOptions {
  bool do_lower_case = true;
  bool tokenize_chinese_chars = true;
  std::optional<bool> strip_accents;     ///< unset: as `do_lower_case`
  std::vector<std::string> never_split;  ///< words between white space that are neither split nor changed
};

/// Makes a BERT tokenizer from only `vocab.txt`.
/// @throws Error  as `load_tokenizer`, or if [UNK], [CLS] or [SEP] is missing
Tokenizer load_bert_vocabulary(const std::string& path, const BertTokenizerOptions& options = {});

}  // namespace lockstep
