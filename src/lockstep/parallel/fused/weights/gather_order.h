#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep {

/// Guesses which unit comes next, from the order of the step before. Equal on ranks that run the same units in the same
/// order; a wrong guess costs a gathering that nobody needs.
class GatherOrder {
 public:
  /// This unit is entered. @return  the one that followed it in the step before, if it was there
  std::optional<std::size_t> enter(std::size_t unit) {
    if (now_.size() == kMost) end_step();  // evaluations without a step in between
    now_.push_back(unit);
    for (std::size_t tried = 0; tried < before_.size(); ++tried) {
      const std::size_t place = (next_ + tried) % before_.size();
      if (before_[place] != unit) continue;
      next_ = place + 1;
      return next_ < before_.size() ? std::optional<std::size_t>(before_[next_]) : std::nullopt;
    }
    return std::nullopt;
  }
  void end_step() {
    if (now_.empty()) return;
    before_ = std::exchange(now_, {});
    next_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 1 << 16;
  std::vector<std::size_t> before_, now_;
  std::size_t next_ = 0;  // in before_
};

}  // namespace lockstep
