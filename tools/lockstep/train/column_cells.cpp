#include "tools/lockstep/train/column_cells.h"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "lockstep/base/text/count_of.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {
namespace {

// A cell that marks an unknown value, in the form of other programs.
bool is_missing_value(const std::string& text) {
  static const std::set<std::string> words{"nan", "na", "n/a", "null", "none", "?"};
  return text.find_first_not_of(" \t") == std::string::npos || words.count(lower_case(text)) != 0;
}

}  // namespace

bool is_number_text(const std::string& text) {
  if (text.empty()) return false;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return *end == '\0';
}

void ColumnCells::count(Kind& kind, const std::string& text, const Where& where) {
  if (++kind.cells > 1) return;
  kind.example = fmt::format("{:?}", text.substr(0, 40));
  kind.where = where();
}

void ColumnCells::add(const std::string& text, const Where& where) {
  if (is_missing_value(text)) {
    ++missing_;
    return;
  }
  if (is_number_text(text)) {
    ++numbers_;
    return;
  }
  different_.insert(std::hash<std::string>()(text));
  if (is_date(text)) return count(dates_, text, where);
  const std::optional<PlainNumber> plain = plain_number(text);
  if (!plain) return count(words_, text, where);
  // The first one that can be read in only one way is shown.
  const bool is_clearer = spelled_.cells > 0 && plain_.has_two_readings() && !plain->has_two_readings();
  if (is_clearer) spelled_ = {spelled_.cells, fmt::format("{:?}", text.substr(0, 40)), where()};
  if (spelled_.cells == 0 || is_clearer) plain_ = *plain;
  count(spelled_, text, where);
}

std::vector<std::string> ColumnCells::warnings_of_words(const std::string& column, const std::string& file) const {
  // Twelve months, or quarters, are categories as well.
  constexpr std::size_t kFewDates = 12;
  // If more than half of the rows have a word of their own, most words occur in one row, and say nothing of another.
  constexpr std::int64_t kFewRows = 50;
  if (others() == 0) return {};
  const std::int64_t all = numbers_ + others(), as_numbers = numbers_ + spelled_.cells;
  const auto different = static_cast<std::int64_t>(different_.size());
  const std::string begin = fmt::format("the column \"{}\" of {} is read as words", column, file);
  if (2 * as_numbers > all && spelled_.cells > 0) {
    return {
        fmt::format("{}, each a category: {} of {} values would be numbers if they were written as {} and not as "
                    "{}, {}",
                    begin, as_numbers, all, plain_.text(), spelled_.example, spelled_.where)};
  }
  if (2 * numbers_ > all) {
    const Kind& other = words_.cells > 0 ? words_ : dates_;
    return {fmt::format(
        "{}, each number a category: besides {} it has {}, the first {}, {}; if it is a column of "
        "numbers, correct what is not a number",
        begin, count_of(numbers_, "number"), count_of(others(), "other value"), other.example, other.where)};
  }
  if (2 * dates_.cells > all && different_.size() > kFewDates) {
    return {
        fmt::format("{}, each a category: {} of {} values are dates, the first {}, {}; give numbers, such as the "
                    "days since one of them, or the month, or take the column out",
                    begin, dates_.cells, all, dates_.example, dates_.where)};
  }
  if (all >= kFewRows && 2 * different > all) {
    const Kind& first = words_.cells > 0 ? words_ : dates_.cells > 0 ? dates_ : spelled_;
    return {
        fmt::format("{}, each a category: {} values in {} differ, so most say nothing of another row, the first "
                    "{}, {}; if they only name the rows, take the column out",
                    begin, different, count_of(all, "row"), first.example, first.where)};
  }
  return {};
}

}  // namespace lockstep
