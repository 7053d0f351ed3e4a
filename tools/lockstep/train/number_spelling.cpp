#include "tools/lockstep/train/number_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/text_dataset.h"

namespace lockstep {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

std::string_view without_blanks_around(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// With one sign for each of: blank (also what parts thousands like one), minus.
std::string with_usual_signs(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 7> kSigns{
      {{"\u00a0", ' '}, {"\u202f", ' '}, {"\u2009", ' '}, {"\u2019", ' '}, {"'", ' '}, {"_", ' '}, {"\u2212", '-'}}};
  std::string usual;
  while (!text.empty()) {
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                   [&](const auto& each) { return text.substr(0, each.first.size()) == each.first; });
    usual += sign == kSigns.end() ? text.front() : sign->second;
    text.remove_prefix(sign == kSigns.end() ? 1 : sign->first.size());
  }
  return usual;
}

// Without one sign of a unit before or behind it. Units that are words, as in 16GB or 3D, are names as often.
std::string_view without_unit(std::string_view text) {
  constexpr std::array<std::string_view, 20> kUnits{"%",  "‰",  "$", "€",  "£",   "¥",   "₹",   "₽", "₩",   "₺",
                                                    "°C", "°F", "°", "zł", "EUR", "USD", "GBP", "CHF", "JPY", "INR"};
  for (const std::string_view unit : kUnits) {
    if (text.size() <= unit.size()) continue;
    const std::size_t behind = text.size() - unit.size();
    if (text.substr(0, unit.size()) == unit) return without_blanks_around(text.substr(unit.size()));
    if (text.substr(behind) == unit) return without_blanks_around(text.substr(0, behind));
  }
  return text;
}

// The digits of a whole number, whose thousands may be separated by a sign other than `mark`. In India hundreds are.
std::optional<std::string> whole_number(std::string_view text, char mark) {
  const std::size_t first = text.find_first_not_of(kDigits);
  if (first == std::string_view::npos) return text.empty() ? std::nullopt : std::optional(std::string(text));
  const char parting = text[first];
  if (parting == mark || std::string_view(".,' ").find(parting) == std::string_view::npos) return std::nullopt;
  std::string digits(text.substr(0, first));
  if (digits.empty() || digits.size() > 3 || digits.front() == '0') return std::nullopt;
  for (std::size_t at = first; at < text.size();) {
    const std::size_t end = std::min(text.find(parting, at + 1), text.size());
    const std::string_view group = text.substr(at + 1, end - at - 1);
    const bool may_be_short = parting == ',' && end < text.size();
    if (!are_digits(group) || (group.size() != 3 && !(may_be_short && group.size() == 2))) return std::nullopt;
    digits += group;
    at = end;
  }
  return digits;
}

std::optional<PlainNumber> without_marks(std::string_view text) {
  if (parse_decimal(text)) return PlainNumber{std::string(text), ""};
  const std::optional<std::string> whole = whole_number(text, '\0');
  const std::size_t mark = text.find_last_of(".,");
  const bool has_fraction = mark != std::string_view::npos && are_digits(text.substr(mark + 1));
  std::optional<std::string> before;
  if (has_fraction)
    before = mark == 0 ? std::optional<std::string>("0") : whole_number(text.substr(0, mark), text[mark]);
  if (before) return PlainNumber{fmt::format("{}.{}", *before, text.substr(mark + 1)), whole.value_or("")};
  return whole ? std::optional(PlainNumber{*whole, ""}) : std::nullopt;
}

// The number at the begin of `text`, which loses it, and its digits.
struct DatePart {
  int value;
  std::size_t digits;
};
DatePart take_date_part(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of(kDigits), text.size());
  const int value = digits == 0 || digits > 4 ? -1 : std::atoi(std::string(text.substr(0, digits)).c_str());
  text.remove_prefix(digits);
  return {value, digits};
}

bool is_day_of_year(const DatePart& one, const DatePart& other) {
  const auto is_within = [](int value, int most) { return value >= 1 && value <= most; };
  return one.digits <= 2 && other.digits <= 2 && is_within(std::min(one.value, other.value), 12) &&
         is_within(std::max(one.value, other.value), 31);
}

bool is_fraction(const std::string& text) {
  const std::optional<double> number = parse_decimal(text);
  return number && *number != std::floor(*number);
}

bool may_have_fraction(const PlainNumber& plain) { return plain.has_two_readings() || is_fraction(plain.number); }

// The place of the first row with one of these labels.
std::string first_place(const TextDataset& rows, const std::set<std::int64_t>& labels, const std::string& file) {
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    if (labels.count(rows.get(row).label.value_or(-1)) != 0) return rows.where(row);
  }
  return file;
}

}  // namespace

std::optional<PlainNumber> plain_number(std::string_view text) {
  if (parse_decimal(text) || text.find_first_of(kDigits) == std::string_view::npos) return std::nullopt;
  const std::string usual = with_usual_signs(text);
  std::string_view rest = without_blanks_around(usual);
  std::string sign;
  const auto take_sign = [&] {
    if (!sign.empty() || rest.empty() || (rest.front() != '-' && rest.front() != '+')) return;
    sign = rest.front();
    rest = without_blanks_around(rest.substr(1));
  };
  take_sign();
  rest = without_unit(rest);
  take_sign();
  if (rest.empty() || rest.front() == '-' || rest.front() == '+') return std::nullopt;
  std::optional<PlainNumber> plain = without_marks(rest);
  if (!plain || sign != "-") return plain;
  plain->number = "-" + plain->number;
  if (plain->has_two_readings()) plain->other = "-" + plain->other;
  return plain;
}

bool is_date(std::string_view text) {
  text = without_blanks_around(text);
  const DatePart first = take_date_part(text);
  if (first.value < 0 || text.empty()) return false;
  const char parting = text.front();
  if (std::string_view("-./").find(parting) == std::string_view::npos) return false;
  text.remove_prefix(1);
  const DatePart second = take_date_part(text);
  if (second.value < 0 || text.empty() || text.front() != parting) return false;
  text.remove_prefix(1);
  const DatePart third = take_date_part(text);
  const bool ends = text.empty() || ((text.front() == ' ' || text.front() == 'T') && text.size() > 1 &&
                                     kDigits.find(text[1]) != std::string_view::npos);
  if (!ends) return false;
  if (first.digits == 4) return second.value <= 12 && is_day_of_year(second, third);
  // A year of two digits only after slashes: 3.6.10 may be a version.
  return (third.digits == 4 || (third.digits == 2 && parting == '/')) && is_day_of_year(first, second);
}

std::vector<std::string> warnings_of_number_labels(const std::vector<std::string>& labels, const std::string& file) {
  std::size_t numbers = 0;
  std::string example;
  std::optional<PlainNumber> plain_example;
  for (const std::string& label : labels) {
    const std::optional<PlainNumber> plain = plain_number(label);
    if (!plain && !parse_decimal(label)) continue;
    ++numbers;
    if (!plain || !may_have_fraction(*plain)) continue;
    if (plain_example && (plain->has_two_readings() || !plain_example->has_two_readings())) continue;
    example = label;
    plain_example = plain;
  }
  if (!plain_example || 2 * numbers <= labels.size()) return {};
  return {
      fmt::format("{} of {} labels of {} are read as classes, and would be numbers to predict if they were written as "
                  "{} and not as \"{}\": correct them; if they are classes: --problem-type single_label_classification",
                  numbers, labels.size(), file, plain_example->text(), printable(example))};
}

void require_numbers_or_names(const TextDataset& rows, const std::string& file) {
  std::set<std::int64_t> fractions, others;
  std::string fraction, other;
  std::size_t numbers = 0;
  for (const auto& [label, index] : rows.labels()) {
    if (!parse_decimal(label)) {
      if (others.empty()) other = label;
      others.insert(index);
      continue;
    }
    ++numbers;
    if (!is_fraction(label)) continue;
    if (fractions.empty()) fraction = label;
    fractions.insert(index);
  }
  if (fractions.empty() || others.empty()) return;
  const std::optional<PlainNumber> plain = plain_number(other);
  throw UsageError(fmt::format("the label \"{}\" is a number with a fraction, but \"{}\" is not a number",
                               printable(fraction), printable(other)),
                   first_place(rows, others.size() <= numbers ? others : fractions, file),
                   plain ? fmt::format("write \"{}\" as {}", printable(other), plain->text())
                         : "correct the label; if it is in another column, --label-column names it");
}

}  // namespace lockstep
