#include "lockstep/data/text/patterns/split_pattern.h"

#include "lockstep/data/text/patterns/pattern_parser.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

SplitPattern::SplitPattern(std::string_view pattern, const std::string& where) {
  PatternParser parser(pattern, where);
  parser.parse();
  steps_ = std::move(parser.steps);
  for (CharItems& items : parser.sets) sets_.emplace_back(std::move(items.items), items.is_negated);
}

std::optional<std::size_t> SplitPattern::match(std::string_view text, std::size_t at) const {
  const std::size_t end = run(0, text, at);
  return end == kNone || end == at ? std::nullopt : std::optional(end);
}

// The end of a match that continues with step `index` at `at`. Calls itself once for each choice, and a pattern has
// few.
std::size_t SplitPattern::run(std::size_t index, std::string_view text, std::size_t at) const {
  for (;;) {
    const Step& step = steps_[index];
    switch (step.kind) {
      case Step::Kind::Match:
        return at;
      case Step::Kind::Jump:
        index = step.targets.front();
        break;
      case Step::Kind::Look:
        if ((run(step.targets[0], text, at) == kNone) != step.is_negative) return kNone;
        index = step.targets[1];
        break;
      case Step::Kind::Branch:
        for (std::size_t i = 0; i + 1 < step.targets.size(); ++i) {
          const std::size_t end = run(step.targets[i], text, at);
          if (end != kNone) return end;
        }
        index = step.targets.back();
        break;
      case Step::Kind::Run:
        if (step.least != step.most && !step.is_possessive) return run_of(step, index, text, at);
        std::size_t count = 0;
        for (std::size_t next = at; count < step.most && next < text.size(); ++count, at = next) {
          if (!sets_[step.set].contains(decode_char(text.data(), &next))) break;
        }
        if (count < step.least) return kNone;
        ++index;
        break;
    }
  }
}

std::size_t SplitPattern::run_of(const Step& step, std::size_t index, std::string_view text, std::size_t at) const {
  std::size_t count = 0;
  for (std::size_t next = at; count < step.most && next < text.size(); ++count, at = next) {
    if (!sets_[step.set].contains(decode_char(text.data(), &next))) break;
  }
  if (count < step.least) return kNone;
  for (;; --count) {
    const std::size_t end = run(index + 1, text, at);
    if (end != kNone || count == step.least) return end;
    do {
      --at;
    } while (!begins_character(text[at]));
  }
}

}  // namespace lockstep::text
