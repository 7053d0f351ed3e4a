#include "lockstep/data/files/line_ends.h"

#include <algorithm>

namespace lockstep {

std::int64_t count_line_ends(std::string_view text) {
  std::int64_t count = std::count(text.begin(), text.end(), '\n');
  for (std::size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (at + 1 == text.size() || text[at + 1] != '\n') ++count;
  }
  return count;
}

}  // namespace lockstep
