#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/files/lazy_pages.h"

namespace lockstep::text {

/// How BERT changes a text before it splits words (Devlin et al., 2018). The switches are those of `BertNormalizer` in
/// tokenizer.json.
struct BertNormalizerOptions {
  bool clean_text = true;             ///< drop control characters, make all white space U+0020
  bool handle_chinese_chars = true;   ///< put spaces around CJK ideographs
  std::optional<bool> strip_accents;  ///< decompose and drop nonspacing marks; unset: as `lowercase`
  bool lowercase = true;
};

/// A normalized text, and the origin of each byte.
struct NormalizedText {
  std::string bytes;
  std::vector<std::uint32_t> source;  ///< for each byte the index of the original character; empty if not requested

  void clear() {
    bytes.clear();
    source.clear();
  }
};

/// How BERT splits: the effect of a character on the word around it.
enum class WordClass : unsigned char { Word, Space, Isolated };

/// The class of a character of normalized text: white space separates words, punctuation is a word by itself.
WordClass word_class(char32_t c);

/// Normalizes exactly as Hugging Face's `BertNormalizer` does. Thread-safe.
class BertNormalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options);

  const BertNormalizerOptions& options() const { return options_; }

  /// The class that `c` of the original text has after normalization. Text may be split around Space and Isolated, and
  /// its parts normalized separately: no rule reaches beyond them. Characters that are dropped count as Word.
  WordClass class_of(char32_t c) const { return pages_.page_of(c).word_class[c % kPageChars]; }

  /// Appends normalized `text`, which must be well-formed UTF-8, to `out`.
  /// @param first_char   index of the first character, for `out.source`
  /// @param with_source  whether to fill `out.source`
  void normalize(std::string_view text, std::uint32_t first_char, bool with_source, NormalizedText& out) const;

 private:
  /// The normalization of 256 code points.
  struct Page {
    WordClass word_class[kPageChars];
    bool reorders[kPageChars];            ///< keeps a mark that must be sorted among its neighbours
    std::uint16_t begin[kPageChars + 1];  ///< of each character's replacement in `replacements`
    std::string replacements;
  };

  void fill(char32_t first, Page& page) const;
  bool strips() const { return options_.strip_accents.value_or(options_.lowercase); }
  void normalize_with_order(std::string_view text, std::uint32_t first_char, bool with_source,
                            NormalizedText& out) const;

  BertNormalizerOptions options_;
  LazyPages<Page> pages_;
};

}  // namespace lockstep::text
