#include "tools/lockstep/train/text_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/csv/delimiter_hint.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/json_records.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {
namespace {

ColumnNames names_of_schema(const TableSchema& schema) {
  ColumnNames columns;
  for (const auto& column : schema.columns) columns.push_back(column.first);
  return columns;
}

}  // namespace

std::string shown_columns(const ColumnNames& columns) {
  constexpr std::size_t kMost = 20, kMostBytes = 40;  // a file without a header has a row there
  std::string text;
  for (std::size_t i = 0; i < std::min(columns.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + printable(columns[i], kMostBytes);
  }
  return columns.size() > kMost ? fmt::format("{}, … ({} in all)", text, columns.size()) : text;
}

bool has_column(const ColumnNames& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

ColumnNames columns_of_texts(const std::string& path, const TableForm& form) {
  const std::string ending = format_ending(path);
  if (ending == ".txt") return {"text"};
  if (ending == ".json") return columns_of_json(path);
  if (ending == ".parquet") return names_of_schema(read_parquet_schema(path));
  if (ending == ".arrow" || is_saved_dataset(path)) return names_of_schema(read_arrow_schema(path));
  return columns_of_file(path, form);
}

void set_form(const TableForm& form, const std::string& path, TextFileOptions& options) {
  const std::string ending = format_ending(path);
  if (!form.given.empty() && ending != ".csv" && ending != ".tsv") {
    throw UsageError(form.given + " cannot be used: " + path + " is not a table", "command line",
                     "leave the flag out, or name a file that ends in .csv or .tsv");
  }
  options.dialect = form.dialect;
  if (!form.has_header) options.column_names = columns_of_texts(path, form);
}

const std::vector<ColumnNames>& usual_text_columns() {
  static const std::vector<ColumnNames> usual{
      {"text"}, {"sentence1", "sentence2"}, {"premise", "hypothesis"}, {"sentence"}, {"review"}, {"content"}};
  return usual;
}

const std::vector<ColumnNames>& usual_sentence_columns() {
  static const std::vector<ColumnNames> usual{{"anchor", "positive", "negative"},
                                              {"anchor", "positive"},
                                              {"sentence1", "sentence2"},
                                              {"query", "answer"},
                                              {"question", "answer"}};
  return usual;
}

ColumnNames text_columns_of_file(const std::string& path, const ColumnNames& given, const TableForm& form,
                                 const std::vector<ColumnNames>& usual) {
  if (!given.empty()) return given;
  const ColumnNames columns = columns_of_texts(path, form);
  for (const ColumnNames& names : usual) {
    if (std::all_of(names.begin(), names.end(), [&](const auto& name) { return has_column(columns, name); })) {
      return names;
    }
  }
  throw UsageError(
      fmt::format("the text column is unknown; the columns are {}", shown_columns(columns)), path,
      delimiter_hint(columns) + (form.has_header ? "give --text-column, with two names for pairs; if the file has no "
                                                   "header, --no-header and the columns' numbers: --text-column 2"
                                                 : "the columns have numbers: give --text-column 2, or two for pairs"));
}

void record_columns(const TextFileOptions& options, nlohmann::json& data_arguments) {
  const ColumnNames of_label = options.label.empty() ? options.label_columns : ColumnNames{options.label};
  data_arguments.emplace("text_column", options.texts);
  data_arguments.emplace("label_column", of_label);
}

}  // namespace lockstep
