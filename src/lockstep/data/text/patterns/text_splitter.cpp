#include "lockstep/data/text/patterns/text_splitter.h"

#include <utility>

#include "lockstep/data/text/encoders/gpt2_pattern.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {

void TextSplitter::add_pattern(std::shared_ptr<const SplitPattern> pattern, bool drops_rest) {
  steps_.push_back({std::move(pattern), drops_rest});
}

void TextSplitter::add_gpt2() { steps_.push_back({}); }

void TextSplitter::split(std::string_view text, const Word& word) const { split_from(0, text, 0, word); }

// `text` is a piece, which begins at `begin` of the whole text. A pattern sees nothing beyond its piece.
void TextSplitter::split_from(std::size_t index, std::string_view text, std::size_t begin, const Word& word) const {
  if (index == steps_.size()) {
    if (!text.empty()) word(begin, begin + text.size());
    return;
  }
  const Step& step = steps_[index];
  const auto pass_on = [&](std::size_t from, std::size_t to) {
    if (from < to) split_from(index + 1, text.substr(from, to - from), begin + from, word);
  };
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = step.pattern ? step.pattern->match(text, at) : std::optional(gpt2_word_end(text, at));
    if (!end) {
      decode_char(text.data(), &at);
      continue;
    }
    if (!step.drops_rest) pass_on(done, at);
    pass_on(at, *end);
    done = at = *end;
  }
  if (!step.drops_rest) pass_on(done, text.size());
}

}  // namespace lockstep::text
