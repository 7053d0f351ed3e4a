#include "lockstep/data/text/patterns/pattern_parser.h"

#include <unicode/uchar.h>

#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/text/unicode/general_category.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::size_t kMostSteps = 512;
constexpr int kMostDepth = 16;
constexpr std::size_t kNoBound = std::numeric_limits<std::size_t>::max();
constexpr char32_t kLastChar = 0x10FFFF;

CharItem one_char(char32_t c, bool ignores_case) {
  CharItem item;
  item.first = item.last = c;
  item.ignores_case = ignores_case;
  return item;
}

CharItem of_categories(std::uint32_t categories, bool is_negated) {
  CharItem item;
  item.categories = categories;
  item.is_negated = is_negated;
  return item;
}

}  // namespace

void PatternParser::parse() {
  if (!is_valid_utf8(pattern_)) reject("it is not UTF-8");
  alternatives(false, 0);
  if (!is_at_end()) reject("a bracket too many");
  add({});
}

// The steps of alternatives stand behind each other: Branch, first, Jump to the end, second, Jump, ...
void PatternParser::alternatives(bool ignores_case, int depth) {
  if (depth > kMostDepth) refuse("groups nested this deeply");
  const std::size_t branch = add({Step::Kind::Branch});
  std::vector<std::size_t> jumps;
  do {
    steps[branch].targets.push_back(steps.size());
    sequence(ignores_case, depth);
    jumps.push_back(add({Step::Kind::Jump}));
  } while (takes("|"));
  for (const std::size_t jump : jumps) steps[jump].targets = {steps.size()};
}

void PatternParser::sequence(bool ignores_case, int depth) {
  if (takes("(?i)")) ignores_case = true;
  while (!is_at_end() && peek() != '|' && peek() != ')') {
    const char c = peek();
    if (c == '(') {
      group(ignores_case, depth);
    } else if (c == '[') {
      add_run(char_class(ignores_case));
    } else if (c == '\\') {
      add_run({{escaped(ignores_case, false)}, false});
    } else if (c == '.') {
      ++at_;
      add_run({{one_char('\n', false)}, true});
    } else if (c == '^' || c == '$') {
      refuse(std::string("\"") + c + "\"");
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
      reject("nothing stands before a repetition");
    } else {
      add_run({{one_char(character(), ignores_case)}, false});
    }
  }
}

void PatternParser::group(bool ignores_case, int depth) {
  const std::size_t begin = steps.size();
  if (takes("(?=")) return look_ahead(false, ignores_case, depth);
  if (takes("(?!")) return look_ahead(true, ignores_case, depth);
  if (takes("(?i:")) {
    ignores_case = true;
  } else if (!takes("(?:")) {
    if (pattern_.substr(at_, 2) == "(?") refuse("the group \"" + std::string(pattern_.substr(at_, 4)) + "\"");
    takes("(");
  }
  alternatives(ignores_case, depth + 1);
  if (!takes(")")) reject("a bracket is not closed");
  repeat_group(begin);
}

void PatternParser::look_ahead(bool is_negative, bool ignores_case, int depth) {
  const std::size_t look = add({Step::Kind::Look});
  steps[look].is_negative = is_negative;
  alternatives(ignores_case, depth + 1);
  if (!takes(")")) reject("a bracket is not closed");
  add({});
  steps[look].targets = {look + 1, steps.size()};
}

// A group may be left out. Repeating one would let a text decide how deep a match nests.
void PatternParser::repeat_group(std::size_t begin) {
  const char c = peek();
  if (c == '*' || c == '+' || c == '{') refuse(std::string("\"") + c + "\" after a group");
  if (!takes("?")) return;
  if (peek() == '?' || peek() == '+') refuse(std::string("\"?") + peek() + "\" after a group");
  // The group's first step is a Branch: one more alternative, which is nothing.
  steps[begin].targets.push_back(steps.size());
}

void PatternParser::repeat(Step& step) {
  if (takes("?")) {
    step.least = 0;
  } else if (takes("*")) {
    step.least = 0;
    step.most = kNoBound;
  } else if (takes("+")) {
    step.most = kNoBound;
  } else if (takes("{")) {
    bounds(step);
    if (peek() == '+' || peek() == '*') refuse("\"}" + std::string(1, peek()) + "\"");
  } else {
    return;
  }
  if (peek() == '?') refuse("\"?\" after a repetition, which then takes as few as it can");
  step.is_possessive = takes("+");
}

void PatternParser::bounds(Step& step) {
  step.least = number();
  step.most = step.least;
  if (takes(",")) step.most = peek() == '}' ? kNoBound : number();
  if (!takes("}") || step.most < step.least) reject("the bounds of a repetition are wrong");
}

CharItems PatternParser::char_class(bool ignores_case) {
  takes("[");
  CharItems items;
  items.is_negated = takes("^");
  while (!takes("]")) {
    if (is_at_end()) reject("a \"[\" is not closed");
    if (peek() == '[') refuse("a class inside a class");
    if (pattern_.substr(at_, 2) == "&&") refuse("\"&&\"");
    items.items.push_back(class_item(ignores_case));
  }
  if (items.items.empty()) reject("a class is empty");
  return items;
}

CharItem PatternParser::class_item(bool ignores_case) {
  CharItem item = peek() == '\\' ? escaped(ignores_case, true) : one_char(character(), ignores_case);
  const bool is_range = item.first == item.last && peek() == '-' && pattern_.substr(at_, 2) != "-]";
  if (!is_range) return item;
  takes("-");
  const CharItem end = peek() == '\\' ? escaped(ignores_case, true) : one_char(character(), ignores_case);
  if (end.first != end.last || end.last < item.first) reject("a range ends before it begins");
  item.last = end.last;
  return item;
}

CharItem PatternParser::escaped(bool ignores_case, bool in_class) {
  takes("\\");
  if (is_at_end()) reject("it ends with a backslash");
  const char c = peek();
  if (c == 'p' || c == 'P') {
    ++at_;
    return category(c == 'P', ignores_case);
  }
  if (c == 's' || c == 'S') {
    ++at_;
    CharItem item;
    item.is_white_space = true;
    item.is_negated = c == 'S';
    return item;
  }
  if (c == 'd' || c == 'D') {
    ++at_;
    return of_categories(U_GC_ND_MASK, c == 'D');
  }
  for (const auto& [letter, meant] : {std::pair('r', '\r'), {'n', '\n'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}}) {
    if (c != letter) continue;
    ++at_;
    return one_char(static_cast<char32_t>(meant), false);
  }
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (is_letter) refuse(std::string("\"\\") + c + (in_class ? "\" in a class" : "\""));
  return one_char(character(), ignores_case);
}

CharItem PatternParser::category(bool is_negated, bool ignores_case) {
  std::string name;
  if (!takes("{")) reject("a category has no name in braces");
  if (takes("^")) is_negated = !is_negated;
  while (!is_at_end() && peek() != '}') name += pattern_[at_++];
  if (!takes("}")) reject("a category has no name in braces");
  const auto mask = category_mask_of_name(name);
  if (!mask) refuse("the category \"" + name + "\"");
  constexpr std::uint32_t kCased = U_GC_LU_MASK | U_GC_LL_MASK | U_GC_LT_MASK;
  if (ignores_case && (*mask & kCased) != 0 && (*mask & kCased) != kCased) refuse("\"" + name + "\" in any case");
  return of_categories(*mask, is_negated);
}

char32_t PatternParser::character() {
  if (is_at_end()) reject("it ends too soon");
  return decode_char(pattern_.data(), &at_);
}

std::size_t PatternParser::number() {
  constexpr std::size_t kMostRepeats = 100'000;
  std::size_t value = 0;
  if (peek() < '0' || peek() > '9') reject("the bounds of a repetition are wrong");
  while (peek() >= '0' && peek() <= '9') {
    value = 10 * value + static_cast<std::size_t>(pattern_[at_++] - '0');
    if (value > kMostRepeats) refuse("so many repetitions");
  }
  return value;
}

std::size_t PatternParser::add(Step step) {
  if (steps.size() >= kMostSteps) refuse("as many steps as this");
  steps.push_back(std::move(step));
  return steps.size() - 1;
}

void PatternParser::add_run(CharItems items) {
  Step step{Step::Kind::Run};
  step.set = sets.size();
  sets.push_back(std::move(items));
  repeat(step);
  add(std::move(step));
}

bool PatternParser::takes(std::string_view text) {
  if (pattern_.substr(at_, text.size()) != text) return false;
  at_ += text.size();
  return true;
}

void PatternParser::refuse(const std::string& what) const {
  throw Error("not supported: " + what + " at character " + std::to_string(at_) + " of the pattern", where_,
              "known are alternatives, groups, classes, \\p{...}, \\s, \\d, repetitions of a character, (?i:...), "
              "(?=...) and (?!...): use a tokenizer whose pattern has nothing else");
}

void PatternParser::reject(const std::string& what) const {
  throw Error("the pattern is wrong at character " + std::to_string(at_) + ": " + what, where_,
              "download the file again");
}

}  // namespace lockstep::text
