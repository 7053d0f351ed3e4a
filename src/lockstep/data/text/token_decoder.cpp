#include "lockstep/data/text/token_decoder.h"

#include <utility>

#include "lockstep/data/text/encoders/byte_level.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

using Replacement = std::pair<const char*, const char*>;

constexpr Replacement kTextReplacements[] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                             {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                             {" 've", "'ve"}, {" 're", "'re"}};
/// Applied to each token, if each token has its own entry in the list of the decoder that this follows.
constexpr Replacement kTokenReplacements[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                              {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                              {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

template <typename Replacements>
void replace_each(const Replacements& replacements, std::string& text) {
  for (const auto& [from, to] : replacements) {
    const std::string_view pattern = from;
    std::size_t at = text.find(pattern);
    if (at == std::string::npos) continue;
    std::string replaced;
    std::size_t copied = 0;
    for (; at != std::string::npos; at = text.find(pattern, copied)) {
      replaced.append(text, copied, at - copied).append(to);
      copied = at + pattern.size();
    }
    text = replaced.append(text, copied, std::string::npos);
  }
}

std::string decode_word_pieces(const std::vector<std::string>& tokens, const std::string& prefix, bool cleanup) {
  std::string text;
  std::string piece;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0) {
      piece = tokens[i];
    } else if (tokens[i].compare(0, prefix.size(), prefix) == 0) {
      piece = tokens[i].substr(prefix.size());
    } else {
      piece = " " + tokens[i];
    }
    if (cleanup) replace_each(kTokenReplacements, piece);
    text += piece;
  }
  return text;
}

}  // namespace

std::string TokenDecoder::decode(const std::vector<std::string>& tokens) const {
  std::string text;
  switch (kind) {
    case Kind::WordPiece:
      return decode_word_pieces(tokens, prefix, cleanup);
    case Kind::ByteLevel:
      for (const std::string& token : tokens) text += from_byte_level(token);
      return replace_invalid_utf8(text);
    case Kind::Blanks:
      for (std::size_t i = 0; i < tokens.size(); ++i) text += (i == 0 ? "" : " ") + tokens[i];
  }
  return text;
}

std::string clean_up_text(std::string text) {
  replace_each(kTextReplacements, text);
  return text;
}

}  // namespace lockstep::text
