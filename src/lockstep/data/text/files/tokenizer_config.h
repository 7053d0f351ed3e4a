#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/text/encoders/added_tokens.h"
#include "lockstep/data/text/tokenizer.h"

namespace lockstep::text {

/// The field of tokenizer_config.json in which a saved tokenizer keeps the words that it never splits. Hugging Face's
/// `never_split` is another one: it has no effect in transformers 5, and has none here.
constexpr const char* kWholeWordsField = "lockstep_never_split";

/// The content of the small files beside a vocabulary: tokenizer_config.json, special_tokens_map.json,
/// added_tokens.json and the model's config.json. All are optional; a value that none of them has is unset.
struct TokenizerConfig {
  std::string class_name;  ///< "BertTokenizer" and the like, without "Fast"
  std::string model_type;  ///< from config.json
  SpecialTokens special;
  std::optional<bool> do_lower_case;
  std::optional<bool> strip_accents;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<bool> add_prefix_space;
  std::vector<std::string> never_split;  ///< from kWholeWordsField
  std::vector<AddedToken> added_tokens;
  std::optional<std::int64_t> model_max_length;
  std::optional<SequenceSide> padding_side;
  std::optional<SequenceSide> truncation_side;
  std::vector<std::string> more_special;             ///< additional_special_tokens, or extra_special_tokens
  bool has_token_types = true;                       ///< false: model_input_names does not name token_type_ids
  bool cleans_up = false;                            ///< clean_up_tokenization_spaces
  bool cleans_up_bpe = false;                        ///< the same of byte-level BPE, by a setting of its own
  nlohmann::json source = nlohmann::json::object();  ///< all of tokenizer_config.json
  std::map<std::string, std::string> templates;      ///< files with templates for chats, by their names in the folder
};

/// Reads those of the files that exist in the folder `dir`.
/// @throws Error  with the file and the field, if a value is malformed or not supported
TokenizerConfig read_tokenizer_config(const std::string& dir);

/// The kind of a vocabulary's files, if there is no tokenizer.json that defines it.
enum class VocabularyFiles { WordPiece, ByteLevelBpe };

/// Refuses the files of a tokenizer whose files have these names too, but which splits texts in another way.
/// @throws Error  if `config` names a class that is not one of BERT's, or of GPT-2's and RoBERTa's
void require_class_for(VocabularyFiles files, const TokenizerConfig& config, const std::string& dir);

}  // namespace lockstep::text
