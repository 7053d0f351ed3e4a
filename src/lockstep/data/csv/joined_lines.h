#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/csv/csv_tokenizer.h"

namespace lockstep {

/// Watches for rows that a lone quote joins: a quote that is a plain character at the beginning of a field, and another
/// one at the end of a later line's field. The reader sees one quoted field of several lines.
///
/// In a file with tabs every quoted field of several lines counts, because quotes are plain characters in most of them.
/// Elsewhere texts of several lines are usual. There a field counts only if each of its lines has the fields of a
/// record by itself, and one of them has a label that the file has: among rows that are joined some may be without
/// one, or have a rare one. Without a column of labels most values in the columns that are not free must look like
/// this record's: a number where that has a number, no white space where that has none.
class JoinedLines {
 public:
  using IsValue = std::function<bool(std::string_view)>;

  /// @param free  columns that may hold any text
  /// @param delimiter  the file's
  JoinedLines(std::string path, char delimiter, std::vector<std::size_t> free = {});

  /// Looks at the record that `tokenizer` has just read, which must stay in memory until `warn`.
  /// @param label  a column whose values `warn` judges; -1: no column
  void look_at(const std::vector<CsvField>& fields, const CsvTokenizer& tokenizer, std::int64_t label = -1);

  /// Warns of what was joined, with numbers and the first place. @param is_label  whether the file has such a label
  void warn(const IsValue& is_label = [](std::string_view) { return true; }) const;

 private:
  struct Join {
    std::string where;
    std::int64_t lines = 0;
    std::vector<std::string_view> labels{};  // what would be labels if the lines were records
    std::int64_t alike = 0, others = 0;      // further values, in columns that are not free
  };
  bool is_shown(const Join& join, const IsValue& is_label) const;
  bool looks_alike(std::size_t column, std::string_view value, const std::vector<CsvField>& fields) const;
  bool may_be_records(const std::vector<std::string_view>& lines, std::size_t joined,
                      const std::vector<CsvField>& fields, std::int64_t label, Join& join) const;

  std::string path_;
  char delimiter_;
  std::vector<std::size_t> free_;
  std::vector<Join> joins_;
};

}  // namespace lockstep
