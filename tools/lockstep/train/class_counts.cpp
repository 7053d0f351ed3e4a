#include "tools/lockstep/train/class_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "lockstep/base/text/count_of.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/text/unicode/unicode_class.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "tools/lockstep/train/label_sets.h"

namespace lockstep {
namespace {

using ClassCount = std::pair<std::string, std::int64_t>;

constexpr std::size_t kMostBytes = 40;

std::string without_blanks(const std::string& label) {
  const std::size_t begin = label.find_first_not_of(" \t\r\n\v\f"), end = label.find_last_not_of(" \t\r\n\v\f");
  return begin == std::string::npos ? "" : label.substr(begin, end + 1 - begin);
}

std::string in_small_letters(const std::string& label) {
  std::u32string small;
  const std::string whole = text::replace_invalid_utf8(label);
  for (std::size_t at = 0; at < whole.size();) text::append_lower_case(text::decode_char(whole.data(), &at), small);
  std::string bytes;
  for (const char32_t c : small) text::append_utf8(c, bytes);
  return bytes;
}

// Format characters, and variation selectors: nobody sees a difference. Icons of private use are seen.
bool is_invisible(char32_t c) {
  const bool is_private = (c >= 0xe000 && c < 0xf900) || c >= 0xf0000;
  return (text::is_bert_control(c) && !is_private && c != text::kReplacementChar) || (c >= 0xfe00 && c < 0xfe10);
}

// As a reader sees it: without blanks at the ends and invisible characters, and with plain blanks inside.
std::string as_seen(const std::string& label) {
  std::string seen;
  const std::string whole = text::replace_invalid_utf8(label);
  for (std::size_t at = 0; at < whole.size();) {
    const char32_t c = text::decode_char(whole.data(), &at);
    if (!is_invisible(c)) text::append_utf8(text::is_white_space(c) ? U' ' : c, seen);
  }
  return without_blanks(seen);
}

// In quotes if it could not be told from another one otherwise, with the codes of what nobody sees.
std::string shown_class(const std::string& label) {
  std::string written;
  bool is_clear = !label.empty() && label.find_first_of(",\"") == std::string::npos;
  const std::string whole = text::replace_invalid_utf8(label);
  for (std::size_t at = 0; at < whole.size();) {
    const char32_t c = text::decode_char(whole.data(), &at);
    const bool is_hidden = is_invisible(c) || text::is_white_space(c);
    is_clear &= !is_hidden;
    if (is_hidden && c >= 0x80) {
      written += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      text::append_utf8(c, written);
    }
  }
  const std::string shown = printable(written, kMostBytes);
  return is_clear ? shown : "\"" + shown + "\"";
}

bool is_truth(const std::string& small) { return small == "true" || small == "false"; }

// Equal for labels that are probably meant to be the same. Beside 0 and 1, true is 1 and false is 0.
std::string meaning(const std::string& label, bool has_bits) {
  constexpr double kExact = 9007199254740992;  // 2^53: whole numbers beyond share values
  const std::string small = in_small_letters(as_seen(label));
  if (has_bits && is_truth(small)) return small == "true" ? "1" : "0";
  const std::optional<double> number = parse_decimal(small);
  return number && std::abs(*number) < kExact ? fmt::format("{}", *number + 0.0) : small;
}

// How two labels of one meaning differ.
struct LabelDifference {
  std::string text;
  bool is_of_case;  // as classes may differ that are not slips
};

LabelDifference difference_of(const std::string& a, const std::string& b) {
  if (without_blanks(a) == without_blanks(b)) return {"they differ only by blanks at the ends", false};
  const std::string seen_a = as_seen(a), seen_b = as_seen(b);
  if (seen_a == seen_b) return {"they differ only by blanks or invisible characters", false};
  if (in_small_letters(seen_a) == in_small_letters(seen_b)) {
    const bool has_blanks = a != seen_a || b != seen_b;
    return {has_blanks ? "they differ only by case and blanks" : "they differ only by case", true};
  }
  const bool are_numbers = parse_decimal(seen_a) && parse_decimal(seen_b);
  return {are_numbers ? "they are the same number" : "they may mean the same", false};
}

std::vector<ClassCount> by_frequency(const ClassCounts& counts) {
  std::vector<ClassCount> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ClassCount& a, const ClassCount& b) { return a.second > b.second; });
  return sorted;
}

// Whether so few rows are more probably slips than a class.
bool are_few(std::int64_t rows, std::int64_t of_other) {
  constexpr std::int64_t kFew = 3, kTimes = 10;
  return rows <= kFew || rows * kTimes <= of_other;
}

}  // namespace

ClassCounts count_classes(const std::vector<std::string>& names, const std::vector<std::int64_t>& labels) {
  ClassCounts counts;
  for (const std::string& name : names) counts[name] = 0;
  for (const std::int64_t label : labels) ++counts[names.at(static_cast<std::size_t>(label))];
  return counts;
}

ClassCounts count_classes(const std::vector<std::string>& names, const Dataset& rows) {
  constexpr std::int64_t kAtOnce = 4096;
  std::vector<std::int64_t> numbers;
  for (std::int64_t first = 0; first < rows.size(); first += kAtOnce) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kAtOnce, rows.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    const at::Tensor labels = rows.get_batch(indices).at("labels").to(at::kLong).contiguous();
    numbers.insert(numbers.end(), labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel());
  }
  return count_classes(names, numbers);
}

ClassCounts count_sets(const std::map<std::string, std::int64_t>& lists, const std::vector<std::int64_t>& labels) {
  std::vector<std::int64_t> rows(lists.size());
  for (const std::int64_t label : labels) ++rows.at(static_cast<std::size_t>(label));
  ClassCounts counts;
  for (const auto& [text, number] : lists) {
    for (const std::string& name : parse_label_list(text).value_or(std::vector<std::string>{})) {
      counts[name] += rows.at(static_cast<std::size_t>(number));
    }
  }
  return counts;
}

std::string class_counts_line(const ClassCounts& counts) {
  constexpr std::size_t kMost = 12, kFirst = 7, kLast = 4;
  const std::vector<ClassCount> sorted = by_frequency(counts);
  std::string line = sorted.size() > kMost ? fmt::format("Labels = {} classes: ", sorted.size()) : "Labels = ";
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool is_left_out = sorted.size() > kMost && i >= kFirst && i + kLast < sorted.size();
    if (is_left_out && i > kFirst) continue;
    line += i == 0 ? "" : ", ";
    line += is_left_out ? "..." : fmt::format("{} {}", shown_class(sorted[i].first), sorted[i].second);
  }
  return line;
}

std::vector<std::string> warnings_of_spellings(const ClassCounts& counts, const std::string& file) {
  constexpr std::size_t kMost = 5;
  std::map<std::string, ClassCount> usual;  // the most frequent of those that may be the same
  const bool has_bits = std::any_of(counts.begin(), counts.end(), [](const ClassCount& each) {
    const std::optional<double> number = parse_decimal(each.first);
    return number == 0.0 || number == 1.0;
  });
  std::vector<std::string> warnings;
  std::size_t all = 0;
  for (const ClassCount& each : by_frequency(counts)) {
    const auto [found, is_first] = usual.emplace(meaning(each.first, has_bits), each);
    if (is_first || each.second == 0) continue;
    const ClassCount& other = found->second;
    const LabelDifference difference = difference_of(each.first, other.first);
    if (difference.is_of_case && !are_few(each.second, other.second)) continue;
    if (++all > kMost) continue;
    warnings.push_back(
        fmt::format("the label {} of {} in {} is a class of its own besides {} of {}: {}; if they are the same, write "
                    "them alike",
                    shown_class(each.first), count_of(each.second, "row"), file, shown_class(other.first),
                    count_of(other.second, "row"), difference.text));
  }
  if (all > kMost) warnings.push_back(fmt::format("{} more labels of {} are like this", all - kMost, file));
  return warnings;
}

std::vector<std::string> warnings_of_imbalance(const ClassCounts& counts, const std::string& file) {
  constexpr double kNearlyAll = 0.9;
  std::int64_t all = 0;
  for (const auto& [name, rows] : counts) all += rows;
  if (counts.size() < 2 || all == 0) return {};
  const auto [label, most] = by_frequency(counts).front();
  const double share = static_cast<double>(most) / static_cast<double>(all);
  if (share < kNearlyAll) return {};
  return {
      fmt::format("{:.1f} % of the rows of {} have the label \"{}\", so a model that always answers it is as "
                  "accurate: look at f1, and choose the best model by it (--metric-for-best-model f1)",
                  100 * share, file, printable(label))};
}

}  // namespace lockstep
