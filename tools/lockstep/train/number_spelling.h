// Numbers and dates that a file spells in another way than programs read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class TextDataset;

/// A number as programs read it, or two of which the file means one: a comma may be a decimal one, or part thousands.
struct PlainNumber {
  std::string number;
  std::string other;  ///< empty: there is one reading

  bool has_two_readings() const { return !other.empty(); }
  std::string text() const { return has_two_readings() ? number + " or " + other : number; }
};

/// How to write a number so that it is read as one: "0.5" for "0,5", "1234.5" for "€1,234.50 ". A decimal comma, marks
/// between thousands (points, commas, blanks, apostrophes), blanks around it, a sign of percent, degree or currency are
/// understood. "1,234" has two readings, 1.234 and 1234. Nothing if the text is a number already, or something else.
std::optional<PlainNumber> plain_number(std::string_view text);

/// Whether `text` is a day, such as 2024-01-31, 31.1.2024 or 1/31/24, with or without a time.
bool is_date(std::string_view text);

/// A warning if most labels are numbers, and some of them have a fraction in another spelling: spelled otherwise they
/// would be values to predict, and as they are they are classes. @param labels  all different
std::vector<std::string> warnings_of_number_labels(const std::vector<std::string>& labels, const std::string& file);

/// @throws UsageError  if some labels are numbers with a fraction, and others are not numbers: names one of each, and
/// the row of the kind that fewer labels are
void require_numbers_or_names(const TextDataset& rows, const std::string& file);

}  // namespace lockstep
