#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/csv_dialect.h"

namespace lockstep {

/// One column of a CSV file, and what becomes of it. `number_column` and the functions beside it make one.
struct CsvColumn {
  enum class Kind {
    Number,    ///< one feature
    Category,  ///< text that becomes features
    Label,     ///< the class, text that becomes a number
    Ignored,
  };
  /// How numbers are brought to a common range. The range is learned from the training file. A column with only one
  /// value becomes zeros.
  enum class Scaling {
    None,
    MinMax,     ///< (x - min) / (max - min): 0 to 1 on the training file
    LogMinMax,  ///< MinMax of log(1 + x), for numbers of many magnitudes; no number may be negative
    Standard,   ///< (x - mean) / deviation, with the deviation of the whole population
  };
  enum class Encoding {
    OneHot,  ///< one feature per value: 1 for this one, 0 for the others
    Index,   ///< one feature: the number of the value in the list
  };

  std::string name;
  Kind kind = Kind::Ignored;
  Scaling scaling = Scaling::None;                 ///< Number
  Encoding encoding = Encoding::OneHot;            ///< Category
  std::vector<std::string> values{};               ///< Category: all values, in order; empty: learned, sorted
  bool unknown_allowed = false;                    ///< Category, OneHot: an unlisted value becomes zeros, not an error
  std::map<std::string, std::int64_t> class_of{};  ///< Label: text to class; empty: learned, sorted
  std::optional<std::int64_t> other_class{};  ///< Label: the class of all other texts; unset: other texts are errors
};

CsvColumn number_column(std::string name, CsvColumn::Scaling scaling = CsvColumn::Scaling::None);
CsvColumn category_column(std::string name, std::vector<std::string> values = {},
                          CsvColumn::Encoding encoding = CsvColumn::Encoding::OneHot);
CsvColumn label_column(std::string name, std::map<std::string, std::int64_t> class_of = {},
                       std::optional<std::int64_t> other_class = {});
CsvColumn ignored_column(std::string name);

/// The content of a CSV file, as declared by its reader.
struct CsvSchema {
  std::vector<CsvColumn> columns;  ///< all columns: in the file's order if it has no header, else in any order
  bool header = true;              ///< the first record names the columns
  CsvDialect dialect{};
};

/// @throws Error  if there is no feature, more than one label, a name or value twice, a negative class, or a setting
/// that the column's kind does not have
void check_schema(const CsvSchema& schema);

}  // namespace lockstep
