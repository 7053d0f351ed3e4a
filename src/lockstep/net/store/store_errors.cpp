#include "lockstep/net/store_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/net/server/key_table.h"

namespace lockstep {

TimeoutError missing_keys_error(const std::vector<std::string>& keys, const std::string& where,
                                const std::vector<LostRank>& lost) {
  constexpr std::size_t kNamedKeys = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(keys.size(), kNamedKeys); ++i) {
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", printable_key(keys[i]));
  }
  if (keys.size() > kNamedKeys) names += fmt::format(" and {} more", keys.size() - kNamedKeys);
  std::string what = fmt::format("waited in vain for {} {} of the store", keys.size() == 1 ? "key" : "keys", names);
  if (!lost.empty()) what += "; lost meanwhile: " + describe(lost);
  return TimeoutError(what, where,
                      "see what the rank that should have set it was doing; if it is slow, raise the timeout");
}

std::string describe(const std::vector<LostRank>& lost) {
  std::string text;
  for (const LostRank& rank : lost) {
    text += fmt::format("{}rank {} on {} ({})", text.empty() ? "" : ", ", rank.rank, rank.host, rank.cause);
  }
  return text;
}

}  // namespace lockstep
