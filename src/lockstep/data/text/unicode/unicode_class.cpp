#include "lockstep/data/text/unicode/unicode_class.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <iterator>

namespace lockstep::text {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Assigned after Unicode 15.0, the version of the oldest supported ICU; in Unicode 16.0 they are \p{L} or \p{N}.
constexpr Range kLettersAfter15[] = {{0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
                                     {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
                                     {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
                                     {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
                                     {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
                                     {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr Range kNumbersAfter15[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
                                     {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};

struct LowerRange {
  char32_t first;
  char32_t last;
  char32_t lower_of_first;
};
constexpr LowerRange kLowerAfter15[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kCombiningDot = 0x307;

template <typename Entry, std::size_t count>
const Entry* find_range(const Entry (&ranges)[count], char32_t c) {
  const auto* found = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                       [](char32_t value, const Entry& entry) { return value < entry.first; });
  if (found == std::begin(ranges)) return nullptr;
  --found;
  return c <= found->last ? found : nullptr;
}

/// Whether `c` was assigned in Unicode `major`.0 or earlier, and is known to a library with that version's tables.
bool assigned_by(char32_t c, int major) {
  UVersionInfo version;
  u_charAge(static_cast<UChar32>(c), version);
  return version[0] != 0 && (version[0] < major || (version[0] == major && version[1] == 0));
}

bool has_category(char32_t c, std::uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }

const icu::Normalizer2* nfd() {
  UErrorCode status = U_ZERO_ERROR;
  return icu::Normalizer2::getNFDInstance(status);
}

}  // namespace

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

bool is_bert_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && u_isalnum(static_cast<UChar32>(c)) == 0;
  // Punctuation in Unicode 8.0, reclassified since then.
  if (c == 0x166D || c == 0x111C9) return true;
  return has_category(c, U_GC_P_MASK) && assigned_by(c, 8);
}

bool is_bert_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0 || c == 0xFFFD) return true;
  return has_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && assigned_by(c, 8);
}

bool is_bert_chinese(char32_t c) {
  // The original has 0x2B920 instead of 0x2B820.
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_nonspacing_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734 || c == 0x1171E) return true;                                 // became Mc
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // became Mn
  return has_category(c, U_GC_MN_MASK) && assigned_by(c, 8);
}

void append_decomposition(char32_t c, std::u32string& out) {
  if (c < 0xC0 || !assigned_by(c, 9)) {
    out.push_back(c);
    return;
  }
  icu::UnicodeString parts;
  if (nfd()->getDecomposition(static_cast<UChar32>(c), parts) == 0) {
    out.push_back(c);
    return;
  }
  for (std::int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
    out.push_back(static_cast<char32_t>(parts.char32At(i)));
  }
}

int combining_class(char32_t c) {
  if (c < 0x300 || !assigned_by(c, 9)) return 0;
  return u_getCombiningClass(static_cast<UChar32>(c));
}

void append_lower_case(char32_t c, std::u32string& out) {
  if (c == kCapitalIWithDot) {
    out.push_back('i');
    out.push_back(kCombiningDot);
    return;
  }
  if (const LowerRange* range = find_range(kLowerAfter15, c)) {
    out.push_back(range->lower_of_first + (c - range->first));
    return;
  }
  const bool known = c < 0x80 || assigned_by(c, 17);
  out.push_back(known ? static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))) : c);
}

PatternClass pattern_class(char32_t c) {
  if (is_white_space(c)) return PatternClass::Space;
  if (find_range(kLettersAfter15, c) != nullptr) return PatternClass::Letter;
  if (find_range(kNumbersAfter15, c) != nullptr) return PatternClass::Number;
  if (!has_category(c, U_GC_L_MASK | U_GC_N_MASK) || !assigned_by(c, 16)) return PatternClass::Other;
  return has_category(c, U_GC_L_MASK) ? PatternClass::Letter : PatternClass::Number;
}

bool is_word_char(char32_t c) {
  if (find_range(kLettersAfter15, c) != nullptr || find_range(kNumbersAfter15, c) != nullptr) return true;
  const auto code = static_cast<UChar32>(c);
  return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0 ||
         has_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace lockstep::text
