#include "lockstep/data/csv/joined_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/files/row_notices.h"

namespace lockstep {
namespace {

// The parts of `text` between those of its characters that are in `ends`.
std::vector<std::string_view> split(std::string_view text, std::string_view ends) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find_first_of(ends);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + (text.substr(end, 2) == "\r\n" ? 2 : 1));
  }
}

bool has_white_space(std::string_view text) { return text.find_first_of(" \t") != std::string_view::npos; }

}  // namespace

JoinedLines::JoinedLines(std::string path, char delimiter, std::vector<std::size_t> free)
    : path_(std::move(path)), delimiter_(delimiter), free_(std::move(free)) {}

void JoinedLines::look_at(const std::vector<CsvField>& fields, const CsvTokenizer& tokenizer, std::int64_t label) {
  if (!tokenizer.has_line_ends()) return;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].quoted || fields[i].text.find_first_of("\r\n") == std::string_view::npos) continue;
    const std::vector<std::string_view> lines = split(fields[i].text, "\r\n");
    Join join{tokenizer.where(fields[i]), static_cast<std::int64_t>(lines.size())};
    if (delimiter_ == '\t' || may_be_records(lines, i, fields, label, join)) joins_.push_back(std::move(join));
  }
}

// The first line begins with the field, and the last one ends with it: they lack the fields before and behind it.
bool JoinedLines::may_be_records(const std::vector<std::string_view>& lines, std::size_t joined,
                                 const std::vector<CsvField>& fields, std::int64_t label, Join& join) const {
  for (std::size_t line = 0; line < lines.size(); ++line) {
    const std::vector<std::string_view> values = split(lines[line], std::string_view(&delimiter_, 1));
    const bool is_first = line == 0, is_last = line + 1 == lines.size();
    const std::size_t begin = is_first ? joined : 0;
    if (begin + values.size() != (is_last ? joined + 1 : fields.size())) return false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t column = begin + i;
      if (column == joined || std::find(free_.begin(), free_.end(), column) != free_.end()) continue;
      if (static_cast<std::int64_t>(column) == label) {
        join.labels.push_back(values[i]);
      } else {
        ++(looks_alike(column, values[i], fields) ? join.alike : join.others);
      }
    }
  }
  return true;
}

bool JoinedLines::is_shown(const Join& join, const IsValue& is_label) const {
  if (delimiter_ == '\t') return true;
  if (!join.labels.empty()) return std::any_of(join.labels.begin(), join.labels.end(), is_label);
  return join.alike > join.others;
}

bool JoinedLines::looks_alike(std::size_t column, std::string_view value, const std::vector<CsvField>& fields) const {
  const std::string_view own = fields[column].text;
  if (parse_decimal(own).has_value() != parse_decimal(value).has_value()) return false;
  return own.empty() == value.empty() && (has_white_space(own) || !has_white_space(value));
}

void JoinedLines::warn(const IsValue& is_label) const {
  std::int64_t rows = 0, lines = 0;
  std::string first;
  for (const Join& join : joins_) {
    if (!is_shown(join, is_label)) continue;
    lines += join.lines;
    if (++rows == 1) first = join.where;
  }
  if (rows == 0) return;
  warn_of_rows(
      "{}: {} quoted field{} join{} {} lines{}, the first at {}; if quotes are plain characters in the file, as in "
      "GLUE's, these are rows of their own: --quoting none (a program: CsvDialect::quote = '\\0')",
      path_, rows, rows == 1 ? "" : "s", rows == 1 ? "s" : "", lines,
      delimiter_ == '\t' ? "" : ", each of which has the fields of a row", first);
}

}  // namespace lockstep
