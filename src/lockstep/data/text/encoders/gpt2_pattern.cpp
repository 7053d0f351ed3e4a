#include "lockstep/data/text/encoders/gpt2_pattern.h"

#include "lockstep/data/text/files/lazy_pages.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

struct Page {
  PatternClass classes[kPageChars];
};

PatternClass class_of(char32_t c) {
  static const LazyPages<Page> pages([](char32_t first, Page& page) {
    for (char32_t i = 0; i < kPageChars; ++i) page.classes[i] = pattern_class(first + i);
  });
  return pages.page_of(c).classes[c % kPageChars];
}

/// The end of the run of characters of class `kind` that continues at `at`.
std::size_t run_end(std::string_view text, std::size_t at, PatternClass kind) {
  for (std::size_t next = at; at < text.size(); at = next) {
    if (class_of(decode_char(text.data(), &next)) != kind) break;
  }
  return at;
}

}  // namespace

std::size_t contraction_length(std::string_view text, std::size_t at) {
  const auto at_or_nul = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  const char first = at_or_nul(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = at_or_nul(at + 2);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

std::size_t gpt2_word_end(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  const char32_t first = decode_char(text.data(), &at);
  if (first == '\'') {
    if (const std::size_t length = contraction_length(text, begin)) return begin + length;
  }
  const PatternClass kind = class_of(first);
  if (kind != PatternClass::Space) return run_end(text, at, kind);
  if (first == ' ' && at < text.size()) {
    std::size_t next = at;
    const PatternClass following = class_of(decode_char(text.data(), &next));
    if (following != PatternClass::Space) return run_end(text, next, following);
  }
  // The last space before a word belongs to that word if it is a blank, or is a word by itself.
  std::size_t last = begin;
  while (at < text.size()) {
    std::size_t next = at;
    if (class_of(decode_char(text.data(), &next)) != PatternClass::Space) return last == begin ? at : last;
    last = at;
    at = next;
  }
  return at;
}

}  // namespace lockstep::text
