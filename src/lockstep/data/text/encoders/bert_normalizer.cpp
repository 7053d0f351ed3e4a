#include "lockstep/data/text/encoders/bert_normalizer.h"

#include <algorithm>

#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

/// A character during normalization, and the index of its original character.
struct TracedChar {
  char32_t c;
  std::uint32_t source;
};

/// One character of a decomposition: the first one replaces the original, the others are added after it.
struct DecomposedChar {
  char32_t c;
  int combining_class;
  bool first;
};

struct WordClassPage {
  WordClass classes[kPageChars];
};

void append_traced(char32_t c, std::uint32_t source, bool with_source, NormalizedText& out) {
  const std::size_t before = out.bytes.size();
  append_utf8(c, out.bytes);
  if (with_source) out.source.insert(out.source.end(), out.bytes.size() - before, source);
}

/// Applies clean-up, and puts spaces around ideographs.
void append_cleaned(const BertNormalizerOptions& options, char32_t c, std::u32string& out) {
  if (options.clean_text) {
    if (is_bert_control(c)) return;
    if (is_white_space(c)) c = ' ';
  }
  const bool spaced = options.handle_chinese_chars && is_bert_chinese(c);
  if (spaced) out.push_back(' ');
  out.push_back(c);
  if (spaced) out.push_back(' ');
}

/// Decomposes with canonical order, then drops marks. The order moves characters but not their origins: the original
/// library traces them in this way.
std::vector<TracedChar> strip_accents(const std::vector<TracedChar>& chars) {
  std::vector<DecomposedChar> parts;
  std::u32string decomposed;
  for (const TracedChar& traced : chars) {
    decomposed.clear();
    append_decomposition(traced.c, decomposed);
    for (std::size_t i = 0; i < decomposed.size(); ++i) {
      parts.push_back({decomposed[i], combining_class(decomposed[i]), i == 0});
    }
  }
  const auto by_class = [](const DecomposedChar& a, const DecomposedChar& b) {
    return a.combining_class < b.combining_class;
  };
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto starter = [](const DecomposedChar& part) { return part.combining_class == 0; };
    const auto marks = std::find_if_not(begin, parts.end(), starter);
    const auto end = std::find_if(marks, parts.end(), starter);
    std::stable_sort(marks, end, by_class);
    begin = end;
  }
  std::vector<TracedChar> kept;
  std::size_t read = 0;
  for (const DecomposedChar& part : parts) {
    if (part.first) ++read;
    const std::uint32_t source = chars[read == 0 ? 0 : read - 1].source;
    if (!is_nonspacing_mark(part.c)) kept.push_back({part.c, source});
  }
  return kept;
}

}  // namespace

WordClass word_class(char32_t c) {
  static const LazyPages<WordClassPage> pages([](char32_t first, WordClassPage& page) {
    for (char32_t i = 0; i < kPageChars; ++i) {
      const char32_t at = first + i;
      page.classes[i] = is_white_space(at)        ? WordClass::Space
                        : is_bert_punctuation(at) ? WordClass::Isolated
                                                  : WordClass::Word;
    }
  });
  return pages.page_of(c).classes[c % kPageChars];
}

BertNormalizer::BertNormalizer(const BertNormalizerOptions& options)
    : options_(options), pages_([this](char32_t first, Page& page) { fill(first, page); }) {}

void BertNormalizer::fill(char32_t first, Page& page) const {
  std::u32string cleaned, stripped, lowered;
  for (char32_t i = 0; i < kPageChars; ++i) {
    cleaned.clear();
    stripped.clear();
    lowered.clear();
    append_cleaned(options_, first + i, cleaned);
    bool reorders = false;
    for (const char32_t c : cleaned) {
      const std::size_t from = stripped.size();
      if (!strips()) {
        stripped.push_back(c);
        continue;
      }
      append_decomposition(c, stripped);
      stripped.erase(
          std::remove_if(stripped.begin() + static_cast<std::ptrdiff_t>(from), stripped.end(), is_nonspacing_mark),
          stripped.end());
      for (std::size_t k = from; k < stripped.size(); ++k) reorders = reorders || combining_class(stripped[k]) != 0;
    }
    for (const char32_t c : stripped) options_.lowercase ? append_lower_case(c, lowered) : lowered.push_back(c);

    page.reorders[i] = reorders;
    page.begin[i] = static_cast<std::uint16_t>(page.replacements.size());
    for (const char32_t c : lowered) append_utf8(c, page.replacements);
    const bool chinese = lowered.size() == 3 && lowered[0] == ' ' && lowered[2] == ' ';
    const bool single = lowered.size() == 1;
    page.word_class[i] = chinese  ? WordClass::Isolated
                         : single ? lockstep::text::word_class(lowered[0])
                                  : WordClass::Word;
  }
  page.begin[kPageChars] = static_cast<std::uint16_t>(page.replacements.size());
}

void BertNormalizer::normalize(std::string_view text, std::uint32_t first_char, bool with_source,
                               NormalizedText& out) const {
  const std::size_t start = out.bytes.size();
  std::uint32_t index = first_char;
  for (std::size_t at = 0; at < text.size(); ++index) {
    const char32_t c = decode_char(text.data(), &at);
    const Page& page = pages_.page_of(c);
    const std::size_t i = c % kPageChars;
    if (page.reorders[i]) {
      out.bytes.resize(start);
      if (with_source) out.source.resize(start);
      normalize_with_order(text, first_char, with_source, out);
      return;
    }
    const std::size_t length = page.begin[i + 1] - page.begin[i];
    out.bytes.append(page.replacements, page.begin[i], length);
    if (with_source) out.source.insert(out.source.end(), length, index);
  }
}

void BertNormalizer::normalize_with_order(std::string_view text, std::uint32_t first_char, bool with_source,
                                          NormalizedText& out) const {
  std::vector<TracedChar> chars;
  std::u32string cleaned;
  std::uint32_t index = first_char;
  for (std::size_t at = 0; at < text.size(); ++index) {
    cleaned.clear();
    append_cleaned(options_, decode_char(text.data(), &at), cleaned);
    for (const char32_t c : cleaned) chars.push_back({c, index});
  }
  if (strips()) chars = strip_accents(chars);
  std::u32string lowered;
  for (const TracedChar& traced : chars) {
    lowered.clear();
    options_.lowercase ? append_lower_case(traced.c, lowered) : lowered.push_back(traced.c);
    for (const char32_t c : lowered) append_traced(c, traced.source, with_source, out);
  }
}

}  // namespace lockstep::text
