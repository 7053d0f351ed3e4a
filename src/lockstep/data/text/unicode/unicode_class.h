#pragma once

#include <string>

namespace lockstep::text {

/// Classes of characters as in Hugging Face's tokenizers 0.23. That library mixes several versions of Unicode (8.0 for
/// categories of BERT, 9.0 for decomposition, 16.0 for GPT-2's pattern, 17.0 for lower case), and ids depend on them.
/// Each function here follows its own version, even if the installed ICU has a newer one. All are pure and thread-safe,
/// and take any value up to U+10FFFF.

/// Unicode's White_Space.
bool is_white_space(char32_t c);
/// Characters that BertPreTokenizer isolates: ASCII punctuation and symbols, and categories P* of Unicode 8.0.
bool is_bert_punctuation(char32_t c);
/// Characters that BertNormalizer's clean-up drops: categories Cc, Cf and Co of Unicode 8.0, U+0000 and U+FFFD, but not
/// white space.
bool is_bert_control(char32_t c);
/// Characters around which BertNormalizer puts spaces: CJK ideographs by block, with the gap in its table.
bool is_bert_chinese(char32_t c);
/// Category Mn of Unicode 8.0: the accents that BertNormalizer strips.
bool is_nonspacing_mark(char32_t c);

/// Appends the canonical decomposition of `c` (Unicode 9.0), or `c` itself.
void append_decomposition(char32_t c, std::u32string& out);
/// Canonical combining class (Unicode 9.0).
int combining_class(char32_t c);
/// Appends the lower case of `c` without context: one character, or two for U+0130.
void append_lower_case(char32_t c, std::u32string& out);

/// The four classes in GPT-2's pattern: \p{L}, \p{N}, \s and the rest.
enum class PatternClass : unsigned char { Letter, Number, Space, Other };
PatternClass pattern_class(char32_t c);

/// \w of the pattern that decides whether an added token is a single word.
bool is_word_char(char32_t c);

}  // namespace lockstep::text
