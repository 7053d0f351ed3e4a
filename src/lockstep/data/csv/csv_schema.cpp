#include "lockstep/detail/data/csv_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Kind = CsvColumn::Kind;

void require(bool holds, const CsvColumn& column, const std::string& what, const std::string& fix) {
  if (!holds) throw Error(what, fmt::format("CSV schema, column \"{}\"", column.name), fix);
}

void check_column(const CsvColumn& column) {
  const auto only = [&](Kind kind, bool set, const char* setting) {
    require(column.kind == kind || !set, column, fmt::format("this kind of column has no {}", setting),
            "leave the setting out, or change the kind");
  };
  only(Kind::Number, column.scaling != CsvColumn::Scaling::None, "scaling");
  only(Kind::Category, column.encoding != CsvColumn::Encoding::OneHot, "encoding");
  only(Kind::Category, !column.values.empty(), "values");
  only(Kind::Category, column.unknown_allowed, "unknown_allowed");
  only(Kind::Label, !column.class_of.empty(), "class_of");
  only(Kind::Label, column.other_class.has_value(), "other_class");
  const std::set<std::string> unique(column.values.begin(), column.values.end());
  require(unique.size() == column.values.size(), column, "a value is listed twice", "list each value once");
  require(!column.unknown_allowed || column.encoding == CsvColumn::Encoding::OneHot, column,
          "an unknown value has no index", "encode the column one-hot, or list all its values");
  const bool negative =
      std::any_of(column.class_of.begin(), column.class_of.end(), [](const auto& entry) { return entry.second < 0; });
  require(!negative && column.other_class.value_or(0) >= 0, column, "a class is negative", "count classes from 0");
  require(!column.other_class || !column.class_of.empty(), column, "all texts are of the same class",
          "list the texts of the other classes in class_of");
}

}  // namespace

CsvColumn number_column(std::string name, CsvColumn::Scaling scaling) {
  CsvColumn column{std::move(name), Kind::Number};
  column.scaling = scaling;
  return column;
}

CsvColumn category_column(std::string name, std::vector<std::string> values, CsvColumn::Encoding encoding) {
  CsvColumn column{std::move(name), Kind::Category};
  column.values = std::move(values);
  column.encoding = encoding;
  return column;
}

CsvColumn label_column(std::string name, std::map<std::string, std::int64_t> class_of,
                       std::optional<std::int64_t> other_class) {
  CsvColumn column{std::move(name), Kind::Label};
  column.class_of = std::move(class_of);
  column.other_class = other_class;
  return column;
}

CsvColumn ignored_column(std::string name) { return {std::move(name), Kind::Ignored}; }

void check_schema(const CsvSchema& schema) {
  std::set<std::string> names;
  int labels = 0;
  int features = 0;
  for (const CsvColumn& column : schema.columns) {
    check_column(column);
    require(names.insert(column.name).second, column, "two columns have this name", "give each column its own name");
    labels += column.kind == Kind::Label ? 1 : 0;
    features += column.kind == Kind::Number || column.kind == Kind::Category ? 1 : 0;
    require(labels < 2, column, "there are two label columns", "declare one column as the label");
  }
  if (features == 0) throw Error("no column is a feature", "CSV schema", "declare number or category columns");
}

}  // namespace lockstep
