#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/encoders/token_trie.h"
#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// A token that is found directly in the text, before the model processes it.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool single_word = false;     ///< matches only if no word character touches it
  bool lstrip = false;          ///< takes the white space before it too
  bool rstrip = false;          ///< takes the white space after it too
  bool normalized = false;      ///< is searched in normalized text
  bool special = false;         ///< is left out by `skip_special_tokens`
  bool between_spaces = false;  ///< matches only between white space or ends of the text
};

/// A part of a text: an added token, or text between them.
struct TextSegment {
  std::size_t begin;
  std::size_t end;
  const AddedToken* token;  ///< null for text
};

/// Finds added tokens in text: the leftmost first, and the longest of those that start there. Immutable, thread-safe.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// @param patterns  the texts to find, none of them empty or repeated
  /// @param tokens  the token of each pattern, which must outlive this object
  AddedTokenFinder(const std::vector<std::string>& patterns, const std::vector<const AddedToken*>& tokens);

  bool empty() const { return tokens_.empty(); }
  /// False: the text contains none of the tokens, by a quick check of its bytes. True: it may contain some.
  bool may_find(std::string_view text) const { return !empty() && next_candidate(text, 0) < text.size(); }
  /// The parts of `text` in order; together they cover it.
  std::vector<TextSegment> split(std::string_view text) const;

 private:
  std::size_t next_candidate(std::string_view text, std::size_t from) const;

  std::vector<const AddedToken*> tokens_;
  TokenTrie trie_;               // from pattern to index in tokens_
  std::string first_bytes_;      // each byte once
  bool starts_token_[256] = {};  // first_bytes_ as a table
};

}  // namespace lockstep::text
