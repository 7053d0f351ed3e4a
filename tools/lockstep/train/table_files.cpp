#include "tools/lockstep/train/table_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/csv/delimiter_hint.h"
#include "lockstep/data/csv_reader.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/nsl_kdd.h"
#include "lockstep/data/texts/text_row_checks.h"
#include "tools/lockstep/train/column_cells.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRowsLookedAt = 10000;
constexpr std::uint64_t kLargestEncodingBytes = 64 << 20;
constexpr const char* kUsualLabel = "label";

std::vector<ColumnCells> count_cells(CsvTokenizer& records, std::size_t columns) {
  std::vector<ColumnCells> counts(columns);
  std::vector<CsvField> fields;
  std::string storage;
  for (std::int64_t row = 0; row < kRowsLookedAt && records.next(fields); ++row) {
    for (std::size_t i = 0; i < std::min(fields.size(), columns); ++i) {
      counts[i].add(std::string(fields[i].value(storage)), [&] { return records.where(fields[i]); });
    }
  }
  return counts;
}

void require_something_to_learn(const CsvSchema& schema, const std::vector<ColumnCells>& counts,
                                const std::string& path, const std::string& label) {
  if (std::all_of(counts.begin(), counts.end(), [](const ColumnCells& cells) { return cells.is_empty(); })) {
    throw UsageError("the file has a header and no rows", path, "add rows below the header");
  }
  const auto is_feature = [](const CsvColumn& column) {
    return column.kind == CsvColumn::Kind::Number || column.kind == CsvColumn::Kind::Category;
  };
  if (std::any_of(schema.columns.begin(), schema.columns.end(), is_feature)) return;
  throw UsageError("beside the label \"" + label + "\" there is no column with values", path,
                   "give a table with columns to learn from");
}

// pandas calls a column of a file "Unnamed: 0" if it has no name there.
bool has_name(const std::string& column) {
  return column.find_first_not_of(" \t") != std::string::npos && column.rfind("Unnamed: ", 0) != 0;
}

// A column without a name is the index of the rows, which pandas' to_csv and R's write.csv write first. As a feature it
// would tell the order of the rows, which is often that of the labels.
std::string reason_to_leave_out(const std::string& column, const ColumnCells& cells) {
  if (!has_name(column)) {
    return "it has no name, as the numbers of rows that pandas' to_csv writes (index=False leaves them out); if it is "
           "a feature, give it a name";
  }
  return cells.is_blank() ? "no cell has a value" : "";
}

// A table: columns of numbers are scaled, others are one-hot, and columns without a value or a name are left out.
CsvSchema schema_of_table(const std::string& train_file, const std::string& label, const TableForm& form,
                          std::vector<std::string>& warnings) {
  const std::vector<std::string> names = columns_of_file(train_file, form);
  if (std::find(names.begin(), names.end(), label) == names.end()) {
    throw UsageError(
        no_such_column(label, names), train_file,
        delimiter_hint(names) + (form.has_header ? "give --label-column; columns are separated by commas, in a .tsv "
                                                   "file by tabs (--delimiter); if the file has no header: --no-header"
                                                 : "the columns have numbers: give --label-column " + names.back()));
  }
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) == 1) continue;
    throw UsageError("the column \"" + name + "\" occurs twice", train_file + ":1", "give each column its own name");
  }
  const FileBytes file = FileBytes::open_text(train_file);
  CsvSchema schema;
  schema.dialect = form.dialect;
  schema.header = form.has_header;
  CsvTokenizer records(file.view(), train_file, schema.dialect);
  std::vector<CsvField> header;
  if (form.has_header) records.next(header);
  const std::vector<ColumnCells> counts = count_cells(records, names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ColumnCells& cells = counts[i];
    const std::string why_not = reason_to_leave_out(names[i], cells);
    CsvColumn column = names[i] == label    ? label_column(label)
                       : !why_not.empty()   ? ignored_column(names[i])
                       : cells.is_numeric() ? number_column(names[i], CsvColumn::Scaling::Standard)
                                            : category_column(names[i]);
    if (column.kind == CsvColumn::Kind::Category) column.unknown_allowed = true;
    if (column.kind == CsvColumn::Kind::Category) {
      const std::vector<std::string> of_words = cells.warnings_of_words(names[i], train_file);
      warnings.insert(warnings.end(), of_words.begin(), of_words.end());
    }
    if (column.kind == CsvColumn::Kind::Ignored) {
      warnings.push_back(
          fmt::format("the column \"{}\", number {} of {}, is left out: {}", names[i], i + 1, train_file, why_not));
    }
    schema.columns.push_back(std::move(column));
  }
  require_something_to_learn(schema, counts, train_file, label);
  return schema;
}

bool may_have_commas(const TableForm& form) { return form.dialect.delimiter == '\0' || form.dialect.delimiter == ','; }

void require_commas(const TableForm& form, const std::string& path) {
  if (may_have_commas(form)) return;
  throw UsageError("--delimiter cannot be used: the model reads NSL-KDD, whose files have commas", path,
                   "leave the flag out");
}

// NSL-KDD has no header: 41 features, the attack, and optionally a difficulty.
bool looks_like_nsl_kdd(const std::string& path, const TableForm& form, const std::string& label) {
  if (!may_have_commas(form) || (!form.has_header && !label.empty())) return false;
  const std::vector<std::string> first = columns_of_file(path, {form.dialect});
  return (first.size() == 42 || first.size() == 43) && is_number_text(first.front());
}

}  // namespace

TableEncoding::TableEncoding(CsvEncoding encoding, std::string label, bool is_nsl_kdd)
    : encoding_(std::move(encoding)), label_(std::move(label)), is_nsl_kdd_(is_nsl_kdd) {}

TableEncoding TableEncoding::learn(const std::string& train_file, const std::string& given_label, const TableForm& form,
                                   std::shared_ptr<TensorDataset>& rows, std::vector<std::string>& warnings) {
  const bool is_nsl_kdd = looks_like_nsl_kdd(train_file, form, given_label);
  const std::string label = is_nsl_kdd ? "" : given_label.empty() ? kUsualLabel : given_label;
  CsvData data =
      is_nsl_kdd ? read_nsl_kdd(train_file) : read_csv(train_file, schema_of_table(train_file, label, form, warnings));
  rows = std::move(data.dataset);
  return {std::move(data.encoding), label, is_nsl_kdd};
}

TableEncoding TableEncoding::of_folder(const std::string& folder) {
  const std::string path = folder + "/" + kFile;
  const auto json = read_json_object(path, kLargestEncodingBytes);
  const auto encoding = json->find("encoding");
  if (encoding == json->end() || !json->value("nsl_kdd", nlohmann::json()).is_boolean()) {
    throw Error("this is not an encoding of a table", path, "give the folder of a model that lockstep train wrote");
  }
  const auto label = json->value("label_column", nlohmann::json(""));
  if (!label.is_string()) {
    throw Error(fmt::format("\"label_column\" is a {}, not a text", label.type_name()),
                path + ", field \"label_column\"", "give the folder of a model that lockstep train wrote");
  }
  return {CsvEncoding::from_json(encoding->dump(), path), label.get<std::string>(), json->at("nsl_kdd").get<bool>()};
}

std::string TableEncoding::json() const {
  const nlohmann::ordered_json json{{"nsl_kdd", is_nsl_kdd_},
                                    {"label_column", label_},
                                    {"encoding", nlohmann::ordered_json::parse(encoding_.json())}};
  return json.dump(2) + "\n";
}

std::vector<std::string> TableEncoding::classes() const {
  if (is_nsl_kdd_) return {"normal", "attack"};
  std::vector<std::string> names(encoding_.classes().size());
  for (const auto& [name, number] : encoding_.classes()) names.at(static_cast<std::size_t>(number)) = name;
  return names;
}

// The columns that the model knows, in a file that may have others; also the label if one is named. In the file's
// order, which counts if it has no header; columns that it lacks are last, and are refused when the file is read.
CsvSchema TableEncoding::schema_of(const std::string& path, const TableForm& form, const std::string& label) const {
  CsvSchema schema;
  schema.dialect = form.dialect;
  schema.header = form.has_header;
  std::vector<CsvColumn> known = encoding_.feature_columns();
  if (!label.empty()) known.push_back(label_column(label, encoding_.classes()));
  const std::vector<std::string> names = columns_of_file(path, form);
  for (const std::string& name : names) {
    const auto it = std::find_if(known.begin(), known.end(), [&](const CsvColumn& each) { return each.name == name; });
    schema.columns.push_back(it == known.end() ? ignored_column(name) : *it);
    if (it != known.end()) known.erase(it);
  }
  if (!form.has_header && !known.empty()) {
    throw UsageError(no_such_column(known.front().name, names), path,
                     "leave --no-header out if the first record has the names of the columns; a model of a table "
                     "without a header reads only such tables");
  }
  schema.columns.insert(schema.columns.end(), known.begin(), known.end());
  return schema;
}

std::shared_ptr<TensorDataset> TableEncoding::read(const std::string& path, const TableForm& form,
                                                   const std::string& given_label) const {
  if (is_nsl_kdd_) require_commas(form, path);
  if (is_nsl_kdd_) return read_nsl_kdd(path, encoding_);
  return read_csv(path, schema_of(path, form, given_label.empty() ? label_ : given_label), encoding_);
}

at::Tensor TableEncoding::read_features(const std::string& path, const TableForm& form) const {
  if (is_nsl_kdd_) require_commas(form, path);
  const auto rows = is_nsl_kdd_ ? read_nsl_kdd(path, encoding_) : read_csv(path, schema_of(path, form, ""), encoding_);
  return rows->fields().at("features");
}

}  // namespace lockstep
