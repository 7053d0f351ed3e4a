#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/text/files/lazy_pages.h"

namespace lockstep::text {

/// A part of a set of characters: a range, general categories, or white space.
struct CharItem {
  char32_t first = 1;  ///< of a range; above `last`: none
  char32_t last = 0;
  std::uint32_t categories = 0;  ///< bits as U_GC_L_MASK
  bool is_white_space = false;
  bool ignores_case = false;  ///< of a range: a character is in it if another case of it is
  bool is_negated = false;

  bool contains(char32_t c) const;
};

/// A set of characters, as `[^\r\n\p{L}]` of a pattern declares it. Looking up costs one load; thread-safe.
class CharSet {
 public:
  CharSet(std::vector<CharItem> items, bool is_negated);

  bool contains(char32_t c) const { return c < 0x80 ? ascii_[c] : pages_->page_of(c).members[c % kPageChars]; }

 private:
  struct Page {
    std::bitset<kPageChars> members;
  };

  std::bitset<0x80> ascii_;
  std::unique_ptr<LazyPages<Page>> pages_;
};

}  // namespace lockstep::text
