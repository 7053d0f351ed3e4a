#include "lockstep/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep {
namespace {

// Levenshtein (1966): least number of letters to insert, delete or replace.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& typed, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t edits = edits_between(typed, name);
    if (edits < least) {
      least = edits;
      best = name;
    }
  }
  return best;
}

}  // namespace lockstep
