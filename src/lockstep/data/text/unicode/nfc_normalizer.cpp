#include "lockstep/data/text/unicode/nfc_normalizer.h"

#include <unicode/normalizer2.h>

#include <algorithm>
#include <optional>

#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr char32_t kFirstThatComposes = 0x300;

// A character of a normalized text. `change` is by how many characters the text has grown (1: it was not there) or
// shrunk (-1: it is one of two).
struct ChangedChar {
  char32_t c;
  int change;
};

const icu::Normalizer2* nfc_tables() {
  UErrorCode status = U_ZERO_ERROR;
  return icu::Normalizer2::getNFCInstance(status);
}

std::optional<char32_t> composed(char32_t first, char32_t second) {
  const UChar32 both = nfc_tables()->composePair(static_cast<UChar32>(first), static_cast<UChar32>(second));
  if (both < 0) return std::nullopt;
  const auto result = static_cast<char32_t>(both);
  // A character that Unicode 9.0 lacks decomposes into itself there.
  std::u32string parts;
  append_decomposition(result, parts);
  return parts.size() > 1 ? std::optional(result) : std::nullopt;
}

std::vector<ChangedChar> decomposed(std::string_view text) {
  std::vector<ChangedChar> chars;
  std::u32string parts;
  for (std::size_t at = 0; at < text.size();) {
    parts.clear();
    append_decomposition(decode_char(text.data(), &at), parts);
    for (std::size_t i = 0; i < parts.size(); ++i) chars.push_back({parts[i], i == 0 ? 0 : 1});
  }
  // Marks behind a character stand in the order of their classes.
  for (auto begin = chars.begin(); begin != chars.end();) {
    if (combining_class(begin->c) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, chars.end(), [](const ChangedChar& one) { return combining_class(one.c) == 0; });
    std::stable_sort(begin, end, [](const ChangedChar& a, const ChangedChar& b) {
      return combining_class(a.c) < combining_class(b.c);
    });
    begin = end;
  }
  return chars;
}

// Each mark joins the last starter before it, unless a mark of its class or a higher one stands between them.
std::vector<ChangedChar> recomposed(const std::vector<ChangedChar>& chars) {
  std::vector<ChangedChar> result;
  std::optional<std::size_t> starter;
  int last_class = 0;  // of the marks between the starter and here; 0: none
  for (const ChangedChar& one : chars) {
    const int its_class = combining_class(one.c);
    const bool is_blocked = last_class != 0 && last_class >= its_class;
    if (starter && !is_blocked) {
      if (const auto both = composed(result[*starter].c, one.c)) {
        result[*starter].c = *both;
        result[*starter].change += one.change - 1;
        continue;
      }
    }
    if (its_class == 0) {
      starter = result.size();
      last_class = 0;
    } else {
      last_class = its_class;
    }
    result.push_back(one);
  }
  return result;
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  const std::size_t first = find_non_ascii(text);
  for (std::size_t at = first; at < text.size();) {
    if (decode_char(text.data(), &at) < kFirstThatComposes) continue;
    UErrorCode status = U_ZERO_ERROR;
    return nfc_tables()->isNormalizedUTF8(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())),
                                          status) != 0;
  }
  return true;
}

std::string normalize_nfc(std::string_view text, std::uint32_t first_char, std::vector<std::uint32_t>* source) {
  std::string out;
  std::int64_t next = first_char;  // the original character that comes next
  for (const ChangedChar& one : recomposed(decomposed(text))) {
    const std::size_t before = out.size();
    append_utf8(one.c, out);
    const std::int64_t from = one.change > 0 ? std::max<std::int64_t>(next - 1, first_char) : next;
    if (one.change <= 0) next += 1 - one.change;
    if (source != nullptr) source->insert(source->end(), out.size() - before, static_cast<std::uint32_t>(from));
  }
  return out;
}

}  // namespace lockstep::text
