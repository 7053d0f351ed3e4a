#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/encoders/token_trie.h"
#include "lockstep/data/text/vocabulary.h"

namespace lockstep::text {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  std::int64_t max_input_chars_per_word = 100;
};

/// A token, and which bytes of the word it covers.
struct WordPart {
  TokenId id;
  std::uint32_t begin;
  std::uint32_t end;
};

/// Cuts a word greedily into the longest tokens of a vocabulary (Schuster and Nakajima, 2012; Wu et al., 2016).
class WordPiece {
 public:
  /// @throws Error  if the vocabulary lacks the unknown token
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options);

  /// Appends the parts of `word`, which holds neither white space nor punctuation beside other characters. A word that
  /// cannot be cut, or has too many characters, is the unknown token as a whole.
  void cut(std::string_view word, std::vector<WordPart>& parts) const;

  TokenId unk_id() const { return unk_id_; }

 private:
  bool cut_known(std::string_view word, std::vector<WordPart>& parts) const;

  TokenTrie first_;      // what a word may start with
  TokenTrie following_;  // what may follow, without its prefix
  TokenId unk_id_;
  std::int64_t max_chars_;
};

}  // namespace lockstep::text
