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

/// A token, and the bytes of the word that it covers.
struct WordPart {
  TokenId id;
  std::uint32_t begin;
  std::uint32_t end;
};

/// Splits a word greedily into the longest tokens of a vocabulary (Schuster and Nakajima, 2012; Wu et al., 2016).
class WordPiece {
 public:
  /// @throws Error  if the unknown token is not in the vocabulary
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options);

  /// Appends the parts of `word`, which must be free of white space, and of punctuation unless it is one such
  /// character. A word that cannot be split, or has too many characters, becomes the unknown token as a whole.
  void cut(std::string_view word, std::vector<WordPart>& parts) const;

  TokenId unk_id() const { return unk_id_; }

 private:
  bool cut_known(std::string_view word, std::vector<WordPart>& parts) const;

  TokenTrie first_;      // tokens that can start a word
  TokenTrie following_;  // tokens that can follow, without their prefix
  TokenId unk_id_;
  std::int64_t max_chars_;
};

}  // namespace lockstep::text
