#include "lockstep/data/text/patterns/char_set.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <utility>

#include "lockstep/data/text/unicode/general_category.h"
#include "lockstep/data/text/unicode/unicode_class.h"

namespace lockstep::text {
namespace {

bool is_in_range(const CharItem& item, char32_t c) { return c >= item.first && c <= item.last; }

// Oniguruma compares folded characters: `s` also means "S" and "ſ".
bool is_in_folded_range(const CharItem& item, char32_t c) {
  const auto code = static_cast<UChar32>(c);
  for (const UChar32 other : {code, u_foldCase(code, U_FOLD_CASE_DEFAULT), u_tolower(code), u_toupper(code)}) {
    if (is_in_range(item, static_cast<char32_t>(other))) return true;
  }
  const UChar32 folded = u_foldCase(code, U_FOLD_CASE_DEFAULT);
  return item.first == item.last && u_foldCase(static_cast<UChar32>(item.first), U_FOLD_CASE_DEFAULT) == folded;
}

bool is_in_items(const std::vector<CharItem>& items, char32_t c) {
  return std::any_of(items.begin(), items.end(), [c](const CharItem& item) { return item.contains(c); });
}

}  // namespace

bool CharItem::contains(char32_t c) const {
  const bool is_in = (ignores_case ? is_in_folded_range(*this, c) : is_in_range(*this, c)) ||
                     (is_white_space && text::is_white_space(c)) ||
                     (categories != 0 && (category_mask(c) & categories) != 0);
  return is_in != is_negated;
}

CharSet::CharSet(std::vector<CharItem> items, bool is_negated) {
  for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = is_in_items(items, c) != is_negated;
  pages_ = std::make_unique<LazyPages<Page>>([items = std::move(items), is_negated](char32_t first, Page& page) {
    for (char32_t i = 0; i < kPageChars; ++i) page.members[i] = is_in_items(items, first + i) != is_negated;
  });
}

}  // namespace lockstep::text
