#include "lockstep/data/text/encoders/wordpiece.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

using Tokens = std::vector<std::pair<std::string_view, TokenId>>;

/// The tokens that start with `prefix`, without it.
Tokens tokens_behind(const Vocabulary& vocabulary, std::string_view prefix) {
  Tokens tokens;
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (!vocabulary.contains(id)) continue;
    const std::string_view token = vocabulary.token(id);
    if (token.size() > prefix.size() && token.substr(0, prefix.size()) == prefix) {
      tokens.emplace_back(token.substr(prefix.size()), id);
    }
  }
  return tokens;
}

TokenId require_unk(const Vocabulary& vocabulary, const std::string& token) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw Error("the vocabulary lacks the unknown token '" + token + "'", "WordPiece",
              "name the unknown token that the vocabulary has, or download the vocabulary again");
}

}  // namespace

WordPiece::WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options)
    : first_(tokens_behind(vocabulary, "")),
      following_(tokens_behind(vocabulary, options.continuing_subword_prefix)),
      unk_id_(require_unk(vocabulary, options.unk_token)),
      max_chars_(options.max_input_chars_per_word) {}

void WordPiece::cut(std::string_view word, std::vector<WordPart>& parts) const {
  const std::size_t before = parts.size();
  const auto limit = static_cast<std::size_t>(max_chars_);
  const bool too_long = word.size() > limit && count_chars(word) > limit;
  if (!too_long && cut_known(word, parts)) return;
  parts.resize(before);
  parts.push_back({unk_id_, 0, static_cast<std::uint32_t>(word.size())});
}

bool WordPiece::cut_known(std::string_view word, std::vector<WordPart>& parts) const {
  std::size_t begin = 0;
  while (begin < word.size()) {
    const TokenTrie::Match match = (begin == 0 ? first_ : following_).longest_prefix(word.substr(begin));
    if (match.length == 0) return false;
    parts.push_back({match.id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + match.length)});
    begin += match.length;
  }
  return true;
}

}  // namespace lockstep::text
