#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/detail/data/csv_schema.h"

namespace lockstep {

/// One column of a file as it was read: numbers, or texts as indices into the list of different texts.
struct CsvColumnData {
  std::vector<double> numbers;           ///< Number
  std::vector<std::int32_t> text_ids;    ///< Category, Label
  std::vector<std::string_view> texts;   ///< the different texts, in the order of their first occurrence
  std::vector<std::string> first_where;  ///< path:line:column of the first occurrence of each text
};

/// All columns of a file, checked against the schema's kinds. Holds views into `text`.
class CsvColumns {
 public:
  /// Most different texts in one column: a column with more is not a category.
  static constexpr std::size_t kMostTexts = 65536;

  /// @throws Error  with file, line and column, as the tokenizer does, or if a record has more or fewer fields; a
  /// header lacks a declared column, or has an undeclared one; a number column holds something other than a finite
  /// number, or a negative one whose logarithm is needed; a column has more than `kMostTexts` different texts; there is
  /// no record
  CsvColumns(std::string_view text, const std::string& path, const CsvSchema& schema);
  CsvColumns(const CsvColumns&) = delete;
  CsvColumns& operator=(const CsvColumns&) = delete;

  std::size_t rows() const { return rows_; }
  /// The data of the schema's column `i`.
  const CsvColumnData& column(std::size_t i) const { return data_[i]; }

 private:
  // The destination of a field of each record.
  struct Target {
    CsvColumn::Kind kind;
    bool logarithm;
    std::size_t column;            // index in the schema
    std::vector<double>* numbers;  // in the column's data
  };

  void map_header(CsvTokenizer& tokenizer);
  void make_targets();
  void reserve(std::size_t rows);
  void add_record(const std::vector<CsvField>& fields, const CsvTokenizer& tokenizer);
  void add_text(std::size_t column, const CsvField& field, const CsvTokenizer& tokenizer);
  [[noreturn]] void refuse_number(const CsvColumn& column, const CsvField& field, const CsvTokenizer& tokenizer) const;

  const CsvSchema& schema_;
  std::string path_;
  std::vector<std::size_t> column_of_field_;  // of the file; an index into the schema
  std::vector<Target> targets_;               // for each field of a record
  std::vector<CsvColumnData> data_;
  std::vector<std::unordered_map<std::string_view, std::int32_t>> ids_;
  std::deque<std::string> unescaped_;  // texts that are not views into the file
  std::string scratch_;
  std::size_t rows_ = 0;
};

}  // namespace lockstep
