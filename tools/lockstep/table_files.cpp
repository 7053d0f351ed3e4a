#include "tools/lockstep/table_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/data/csv_reader.h"
#include "lockstep/data/csv_tokenizer.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/nsl_kdd.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRowsLookedAt = 10000;

bool is_number(const std::string& text) {
  if (text.empty()) return false;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return *end == '\0';
}

// A table with a header: columns of numbers are scaled, others are one-hot; the label is named, or "label".
CsvSchema schema_of_table(const std::string& train_file, const std::string& label_column_name) {
  const std::vector<std::string> names = columns_of_file(train_file);
  const std::string label = label_column_name.empty() ? "label" : label_column_name;
  if (std::find(names.begin(), names.end(), label) == names.end()) {
    throw UsageError("there is no column \"" + label + "\"", train_file, "give --label-column");
  }
  const FileBytes file = FileBytes::open_text(train_file);
  CsvSchema schema;
  if (train_file.find(".tsv") != std::string::npos) schema.dialect.delimiter = '\t';
  CsvTokenizer records(file.view(), train_file, schema.dialect);
  std::vector<CsvField> fields;
  std::string storage;
  std::vector<bool> numeric(names.size(), true);
  records.next(fields);
  for (std::int64_t row = 0; row < kRowsLookedAt && records.next(fields); ++row) {
    for (std::size_t i = 0; i < std::min(fields.size(), names.size()); ++i) {
      numeric[i] = numeric[i] && is_number(std::string(fields[i].value(storage)));
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    CsvColumn column = names[i] == label ? label_column(label)
                       : numeric[i]      ? number_column(names[i], CsvColumn::Scaling::Standard)
                                         : category_column(names[i]);
    if (column.kind == CsvColumn::Kind::Category) column.unknown_allowed = true;
    schema.columns.push_back(std::move(column));
  }
  return schema;
}

// NSL-KDD has no header: 41 features, the attack, and perhaps a difficulty.
bool is_nsl_kdd(const std::string& path) {
  const std::vector<std::string> first = columns_of_file(path);
  return (first.size() == 42 || first.size() == 43) && is_number(first.front());
}

std::int64_t classes_of(const CsvEncoding& encoding) {
  std::int64_t classes = 0;
  for (const auto& [name, number] : encoding.classes()) classes = std::max(classes, number + 1);
  return classes;
}

// The same columns in a file whose label is not known, or not to be looked at.
CsvSchema without_label(CsvSchema schema, const std::string& path) {
  const std::vector<std::string> names = columns_of_file(path);
  std::vector<CsvColumn> columns;
  for (CsvColumn& column : schema.columns) {
    const bool is_label = column.kind == CsvColumn::Kind::Label;
    const bool is_there = std::find(names.begin(), names.end(), column.name) != names.end();
    if (!is_label) columns.push_back(std::move(column));
    if (is_label && is_there) columns.push_back(ignored_column(column.name));
  }
  schema.columns = std::move(columns);
  return schema;
}

std::vector<std::string> class_names(const CsvEncoding& encoding) {
  std::vector<std::string> names(static_cast<std::size_t>(classes_of(encoding)));
  for (const auto& [name, number] : encoding.classes()) names.at(static_cast<std::size_t>(number)) = name;
  return names;
}

}  // namespace

TrainingTables read_training_tables(const std::string& train_file, const std::string& validation_file,
                                    const std::string& label_column_name) {
  TrainingTables tables;
  if (is_nsl_kdd(train_file)) {
    const CsvData data = read_nsl_kdd(train_file);
    tables.train = data.dataset;
    tables.classes = 2;
    if (!validation_file.empty()) tables.eval = read_nsl_kdd(validation_file, data.encoding);
    return tables;
  }
  const CsvSchema schema = schema_of_table(train_file, label_column_name);
  const CsvData data = read_csv(train_file, schema);
  tables.train = data.dataset;
  tables.classes = classes_of(data.encoding);
  if (!validation_file.empty()) tables.eval = read_csv(validation_file, schema, data.encoding);
  return tables;
}

TableToPredict read_table_to_predict(const std::string& train_file, const std::string& file,
                                     const std::string& label_column_name) {
  if (is_nsl_kdd(train_file)) {
    const CsvData data = read_nsl_kdd(train_file);
    return {read_nsl_kdd(file, data.encoding)->fields().at("features"), {"normal", "attack"}};
  }
  const CsvSchema schema = schema_of_table(train_file, label_column_name);
  const CsvData data = read_csv(train_file, schema);
  const auto rows = read_csv(file, without_label(schema, file), data.encoding);
  return {rows->fields().at("features"), class_names(data.encoding)};
}

}  // namespace lockstep
