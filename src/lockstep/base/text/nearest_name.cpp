#include "lockstep/base/text/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep {
namespace {

// The least number of inserted, deleted or replaced letters, or swapped neighbours (Damerau, 1964), if no part is
// edited twice.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  std::iota(edits[0].begin(), edits[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({replaced, edits[i - 1][j] + 1, edits[i][j - 1] + 1});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(const std::string& typed, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    // At least this many letters must be deleted or inserted; `typed` may have any length.
    const std::size_t excess = typed.size() > name.size() ? typed.size() - name.size() : name.size() - typed.size();
    if (excess >= least) continue;
    const std::size_t edits = edits_between(typed, name);
    // If no letter of `typed` remains, the name is not a suggestion.
    if (edits < least && edits < std::max(typed.size(), name.size())) {
      least = edits;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names) {
  const std::string near = nearest_name(typed, names);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

}  // namespace lockstep
