#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/text/encoders/added_tokens.h"
#include "lockstep/data/text/tokenizer.h"

namespace lockstep::text {

/// What the small files beside a vocabulary say: tokenizer_config.json, special_tokens_map.json, added_tokens.json and
/// the model's config.json. All are optional; what none of them says is unset.
struct TokenizerConfig {
  std::string class_name;  ///< "BertTokenizer" and the like, without "Fast"
  std::string model_type;  ///< of config.json
  SpecialTokens special;
  std::optional<bool> do_lower_case;
  std::optional<bool> strip_accents;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<bool> add_prefix_space;
  std::vector<std::string> never_split;
  std::vector<AddedToken> added_tokens;
  std::optional<std::int64_t> model_max_length;
  std::optional<SequenceSide> padding_side;
  std::optional<SequenceSide> truncation_side;
};

/// Reads those of the files that stand in the folder `dir`.
/// @throws Error  with the file and the field: malformed, or it asks for what is not supported
TokenizerConfig read_tokenizer_config(const std::string& dir);

/// What a vocabulary's files are for, where there is no tokenizer.json that says it.
enum class VocabularyFiles { WordPiece, ByteLevelBpe };

/// Refuses the files of a tokenizer that has files of these names, too, but cuts texts in another way.
/// @throws Error  if `config` names a class that is not one of BERT's, or of GPT-2's and RoBERTa's
void require_class_for(VocabularyFiles files, const TokenizerConfig& config, const std::string& dir);

}  // namespace lockstep::text
