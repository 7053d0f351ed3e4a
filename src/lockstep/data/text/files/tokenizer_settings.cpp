#include "lockstep/data/text/files/tokenizer_settings.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::text {
namespace {

// Hugging Face gives a special token that no file numbers the next free number, which the model does not embed.
TokenId number_of_special(const std::string& token, const TokenizerDocument& document) {
  if (const auto id = document.vocabulary.find(token)) return *id;
  throw Error(
      "the special token '" + token + "' is neither in the vocabulary nor among the added tokens",
      document.where + ": additional_special_tokens",
      "remove it from tokenizer_config.json and special_tokens_map.json, or take all files from the same model");
}

void declare_special(const std::string& content, TokenizerDocument& document) {
  const auto known = std::find_if(document.added_tokens.begin(), document.added_tokens.end(),
                                  [&](const AddedToken& token) { return token.content == content; });
  if (known != document.added_tokens.end()) {
    known->special = true;
    return;
  }
  AddedToken token;
  token.content = content;
  token.id = number_of_special(content, document);
  token.special = true;
  token.normalized = false;
  document.added_tokens.push_back(token);
}

// A word, and not "[UNK]", "[unused1]" or "<s>".
bool is_capitalized_word(const std::string& token) {
  if (token.empty() || token.front() == '[' || token.front() == '<') return false;
  return std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

void apply_settings(const TokenizerConfig& config, TokenizerDocument& document) {
  for (const std::string& token : config.more_special) declare_special(token, document);
  document.truncation_side = config.truncation_side;
  document.has_token_types = config.has_token_types;
  // As transformers 5, which says that byte-level BPE would be corrupted.
  document.cleans_up = config.cleans_up && (is_word_piece(document) || config.cleans_up_bpe);
  document.config = config.source;
  document.more_special = config.more_special;
  document.templates = config.templates;
}

void warn_of_capitals(const TokenizerConfig& config, const TokenizerDocument& document) {
  if (config.do_lower_case) return;
  for (TokenId id = 0; id < document.vocabulary.id_limit(); ++id) {
    if (!document.vocabulary.contains(id) || !is_capitalized_word(document.vocabulary.token(id))) continue;
    log_warning(
        "{}: the vocabulary has words with capital letters, such as '{}', and texts are lower-cased, as transformers "
        "does if no file says otherwise. If the model is cased, write {{\"do_lower_case\": false}} into "
        "tokenizer_config.json beside it; true silences this",
        document.where, document.vocabulary.token(id));
    return;
  }
}

}  // namespace lockstep::text
