#pragma once

#include <string>
#include <vector>

namespace lockstep::text {

/// How tokens become text again.
struct TokenDecoder {
  enum class Kind {
    Blanks,     ///< joined by blanks
    WordPiece,  ///< joined by blanks, but for those that go on with a word
    ByteLevel   ///< characters stand for bytes
  };
  Kind kind = Kind::Blanks;
  std::string prefix = "##";  ///< WordPiece: of what goes on with a word
  bool cleanup = true;        ///< WordPiece: no blanks before punctuation and contractions

  std::string decode(const std::vector<std::string>& tokens) const;
};

/// Takes blanks before punctuation and contractions out of a whole text, as `clean_up_tokenization` does in Python.
std::string clean_up_text(std::string text);

}  // namespace lockstep::text
