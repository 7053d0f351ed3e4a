#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/patterns/char_set.h"

namespace lockstep::text {

/// The part of Oniguruma's patterns that tokenizers cut texts with: alternatives, groups, classes, categories, `?`,
/// `*`, `+` and `{n,m}` of one character, also possessive, `(?i:...)`, and looking ahead. Thread-safe.
class SplitPattern {
 public:
  /// @param where  named in errors
  /// @throws Error  that names what the pattern has and this class has not, or what is wrong in it
  SplitPattern(std::string_view pattern, const std::string& where);

  /// The end of the match that begins at `at` and is not empty; nothing if there is none.
  std::optional<std::size_t> match(std::string_view text, std::size_t at) const;

  /// One step. A step continues with the next one unless it says otherwise.
  struct Step {
    enum class Kind {
      Run,     ///< `least` to `most` characters of `set`; as many as possible first
      Branch,  ///< the first of `targets` that leads to a match
      Jump,    ///< to targets[0]
      Look,    ///< what begins at targets[0] must match here, or must not; continues at targets[1]
      Match
    };
    Kind kind = Kind::Match;
    std::size_t set = 0;
    std::size_t least = 1;
    std::size_t most = 1;
    bool is_possessive = false;
    bool is_negative = false;
    std::vector<std::size_t> targets = {};
  };

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t run(std::size_t step, std::string_view text, std::size_t at) const;
  std::size_t run_of(const Step& step, std::size_t index, std::string_view text, std::size_t at) const;

  std::vector<Step> steps_;
  std::vector<CharSet> sets_;
};

}  // namespace lockstep::text
