#pragma once

#include <functional>
#include <utility>

namespace lockstep {

/// Forwards past the wrapper: of the module itself, or of one of its members. A synchronised backward that no forward
/// of the wrapper has announced is of such a call.
class PlainCalls {
 public:
  /// @param at_begin  called on every rank at the beginning of each such backward; may throw
  /// @param at_end    called on every rank at the end of each
  /// @param is_wanted  false in no_sync: then such a backward is not synchronised, if the last forward of the wrapper
  /// was not
  void watch(std::function<void()> at_begin, std::function<void()> at_end, std::function<bool()> is_wanted) {
    at_begin_ = std::move(at_begin);
    at_end_ = std::move(at_end);
    is_wanted_ = std::move(is_wanted);
  }
  /// From now on every synchronised backward counts as one of a plain call: these are the rule.
  void follow() { are_rule_ = true; }
  bool are_rule() const { return are_rule_; }

  /// The next synchronised backward, or the present one, is of a forward of the wrapper. @param is  false: it is not
  void announce(bool is = true) { was_announced_ = is; }
  /// Whether that backward is of a plain call.
  bool is_one() const { return at_begin_ && (are_rule_ || !was_announced_); }
  bool is_wanted() const { return at_begin_ && is_wanted_(); }
  void begin() const {
    if (at_begin_) at_begin_();
  }
  void end() const { at_end_(); }

 private:
  std::function<void()> at_begin_, at_end_;
  std::function<bool()> is_wanted_;
  bool are_rule_ = false;
  bool was_announced_ = false;
};

}  // namespace lockstep
