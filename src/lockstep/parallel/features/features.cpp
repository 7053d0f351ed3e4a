#include "lockstep/parallel/features/features.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep {

Features& Features::add(Feature feature, std::string words) {
  words_[feature] = words.empty() ? name_of(feature) : std::move(words);
  return *this;
}

std::optional<Features::Refusal> Features::first(bool is_error) const {
  using Kind = Exclusion::Kind;
  for (const Exclusion& each : exclusions()) {
    if (!has(each.first) || is_error == (each.kind == Kind::NotFused)) continue;
    const std::string& asked = words_.at(each.first);
    if (each.kind == Kind::Needs) {
      if (has(each.second)) continue;
      return Refusal{fmt::format("{} needs {}: {}", asked, name_of(each.second), each.why), each.fix};
    }
    if (!has(each.second)) continue;
    return Refusal{fmt::format("{} cannot be combined with {}: {}", asked, words_.at(each.second), each.why), each.fix};
  }
  return std::nullopt;
}

}  // namespace lockstep
