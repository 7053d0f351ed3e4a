#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/encoders/token_trie.h"
#include "lockstep/data/text/token_id.h"

namespace lockstep::text {

/// A token that is found in the text itself, before the model sees it.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;     ///< only where no word character touches it
  bool lstrip = false;          ///< takes the white space before it too
  bool rstrip = false;          ///< takes the white space after it too
  bool normalized = false;      ///< is looked for in normalized text
  bool special = false;         ///< is left out by `skip_special_tokens`
  bool between_spaces = false;  ///< only where white space or an end of the text is on both sides
};

/// A part of a text: an added token, or text between them.
struct TextSegment {
  std::size_t begin;
  std::size_t end;
  const AddedToken* token;  ///< null for text
};

/// Finds added tokens in text: the leftmost first, the longest of those that start there. Immutable, thread-safe.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// @param patterns  what to look for, none empty or twice
  /// @param tokens    the token of each, which must outlive this
  AddedTokenFinder(const std::vector<std::string>& patterns, const std::vector<const AddedToken*>& tokens);

  bool empty() const { return tokens_.empty(); }
  /// False: the text holds none of the tokens, by a quick look at bytes. True: it may.
  bool may_find(std::string_view text) const { return !empty() && next_candidate(text, 0) < text.size(); }
  /// The parts of `text` in order; together they cover it.
  std::vector<TextSegment> split(std::string_view text) const;

 private:
  std::size_t next_candidate(std::string_view text, std::size_t from) const;

  std::vector<const AddedToken*> tokens_;
  TokenTrie trie_;               // from pattern to index in tokens_
  std::string first_bytes_;      // each once
  bool starts_token_[256] = {};  // the same as a table
};

}  // namespace lockstep::text
