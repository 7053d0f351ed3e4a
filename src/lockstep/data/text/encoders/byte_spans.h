#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/data/text/encoders/byte_pair.h"
#include "lockstep/data/text/text_encoder.h"

namespace lockstep::text {

/// Appends the spans of the tokens of `scratch.words`, which are words of `text`.
/// @param char_of  the character of a byte; it is asked for bytes in order
template <typename CharOf>
void append_token_spans(const BytePairModel& model, std::string_view text, const CharOf& char_of,
                        EncoderScratch& scratch) {
  for (const EncodedWord& word : scratch.words) {
    const std::string_view raw = text.substr(word.begin, word.end - word.begin);
    scratch.parts.clear();
    model.cut(raw, scratch.parts, scratch.merge_space);
    for (const WordPart& part : scratch.parts) {
      const std::string_view token = raw.substr(part.begin, part.end - part.begin);
      const std::size_t leading = std::min(token.find_first_not_of(' '), token.size());
      const std::size_t trailing = token.size() - (token.find_last_not_of(' ') + 1);
      const std::int32_t begin = char_of(word.begin + part.begin);
      const std::int32_t end = char_of(word.begin + part.end - 1) + 1;
      scratch.spans.push_back({begin, end, static_cast<std::int32_t>(leading), static_cast<std::int32_t>(trailing)});
    }
  }
}

/// The character of a byte, for append_token_spans, of a text whose first character is number `first_char`.
class CountedChars {
 public:
  CountedChars(std::string_view text, std::int32_t first_char) : text_(text), char_(first_char - 1) {}

  std::int32_t operator()(std::size_t byte) const {
    for (; counted_ <= byte; ++counted_) char_ += (static_cast<unsigned char>(text_[counted_]) & 0xC0) != 0x80;
    return char_;
  }

 private:
  std::string_view text_;
  mutable std::int32_t char_;
  mutable std::size_t counted_ = 0;
};

}  // namespace lockstep::text
