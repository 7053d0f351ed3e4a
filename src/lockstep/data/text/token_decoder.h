#pragma once

#include <string>
#include <vector>

namespace lockstep::text {

/// How tokens become text again.
struct TokenDecoder {
  enum class Kind {
    Blanks,     ///< joined by blanks
    WordPiece,  ///< joined by blanks, except before tokens that continue a word
    ByteLevel   ///< characters represent bytes
  };
  Kind kind = Kind::Blanks;
  std::string prefix = "##";  ///< WordPiece: marks tokens that continue a word
  bool cleanup = true;        ///< WordPiece: no blanks before punctuation and contractions

  std::string decode(const std::vector<std::string>& tokens) const;
};

/// Removes blanks before punctuation and contractions from a whole text, as `clean_up_tokenization` does in Python.
std::string clean_up_text(std::string text);

}  // namespace lockstep::text
