#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/text/encoders/added_tokens.h"
#include "lockstep/data/text/encoders/bert_normalizer.h"
#include "lockstep/data/text/encoders/byte_level_encoder.h"
#include "lockstep/data/text/encoders/byte_pair.h"
#include "lockstep/data/text/encoders/wordpiece.h"
#include "lockstep/data/text/sequence_assembly.h"
#include "lockstep/data/text/token_decoder.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/vocabulary.h"
#include "lockstep/detail/data/text/encoding.h"

namespace lockstep::text {

/// A tokenizer as its files declare it. Loaders make one from the files that exist; saving writes it back.
struct TokenizerDocument {
  /// The content of tokenizer.json without the model's `vocab` and `merges`, and the added tokens.
  nlohmann::json json;
  Vocabulary vocabulary;      ///< of the model
  std::vector<Merge> merges;  ///< of the model
  std::vector<AddedToken> added_tokens;
  SpecialTokens special;
  std::string class_name;  ///< as in tokenizer_config.json
  std::optional<std::int64_t> model_max_length;
  std::optional<SequenceSide> truncation_side;  ///< as in tokenizer_config.json
  bool has_token_types = true;                  ///< false: all tokens are of type 0, by model_input_names
  bool cleans_up = false;                       ///< clean_up_tokenization_spaces
  /// The content of tokenizer_config.json, so that a saved tokenizer keeps settings that matter to others alone.
  nlohmann::json config = nlohmann::json::object();
  std::vector<std::string> more_special;         ///< of any file
  std::map<std::string, std::string> templates;  ///< files that others read, by their names in the folder
  std::string where;                             ///< file or folder, named in errors
};

/// Padding as tokenizer.json declares it: it names its own token.
struct DeclaredPadding {
  Padding padding;
  PadToken token;
};

/// The parts of `document.json`, parsed. Each function throws an Error that names a declared value that is not
/// supported.
bool is_word_piece(const TokenizerDocument& document);
WordPieceOptions word_piece_options(const TokenizerDocument& document);
BytePairOptions byte_pair_options(const TokenizerDocument& document);
BertNormalizerOptions normalizer_options(const TokenizerDocument& document);
ByteLevelOptions byte_level_options(const TokenizerDocument& document);  ///< if declared_split() is nothing
PostProcessor post_processor(const TokenizerDocument& document);
TokenDecoder token_decoder(const TokenizerDocument& document);
std::optional<Truncation> declared_truncation(const TokenizerDocument& document);
std::optional<DeclaredPadding> declared_padding(const TokenizerDocument& document);

/// Number of the token `name`, in the model or added.
std::optional<TokenId> find_token(const TokenizerDocument& document, const std::string& name);

/// Reads tokenizer.json: everything but what tokenizer_config.json declares.
TokenizerDocument read_tokenizer_json(const std::string& path);

/// The document as one JSON value, in the form of tokenizer.json.
nlohmann::ordered_json write_tokenizer_json(const TokenizerDocument& document);

/// Reads `merges.txt` or `vocab.bpe`: two tokens per line, separated by a blank; a first line `#version...` is skipped.
/// @throws Error  with file and line
std::vector<Merge> read_merges(const std::string& path);

/// Builds the tokenizer. Checks everything that the document declares.
Tokenizer make_tokenizer(TokenizerDocument document);

}  // namespace lockstep::text
