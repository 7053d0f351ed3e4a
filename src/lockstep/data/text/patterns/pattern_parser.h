#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/patterns/char_set.h"
#include "lockstep/data/text/patterns/split_pattern.h"

namespace lockstep::text {

/// The characters of a set, before there are tables of it.
struct CharItems {
  std::vector<CharItem> items;
  bool is_negated = false;
};

/// Turns the text of a pattern into the steps of a SplitPattern.
class PatternParser {
 public:
  PatternParser(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  /// Fills `steps` and `sets`. @throws Error  naming the place in the pattern
  void parse();

  std::vector<SplitPattern::Step> steps;
  std::vector<CharItems> sets;

 private:
  using Step = SplitPattern::Step;

  void alternatives(bool ignores_case, int depth);
  void sequence(bool ignores_case, int depth);
  void group(bool ignores_case, int depth);
  void look_ahead(bool is_negative, bool ignores_case, int depth);
  void repeat_group(std::size_t begin);
  void repeat(Step& step);
  void bounds(Step& step);
  CharItems char_class(bool ignores_case);
  CharItem class_item(bool ignores_case);
  CharItem escaped(bool ignores_case, bool in_class);
  CharItem category(bool is_negated, bool ignores_case);
  char32_t character();
  std::size_t number();
  std::size_t add(Step step);
  void add_run(CharItems items);

  bool is_at_end() const { return at_ >= pattern_.size(); }
  bool takes(std::string_view text);
  char peek() const { return is_at_end() ? '\0' : pattern_[at_]; }
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void reject(const std::string& what) const;

  std::string_view pattern_;
  std::string where_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::text
