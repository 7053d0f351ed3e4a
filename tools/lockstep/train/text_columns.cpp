#include "tools/lockstep/train/text_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/texts/json_records.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {

bool has_column(const ColumnNames& columns, const std::string& name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

ColumnNames columns_of_texts(const std::string& path, const CsvDialect& dialect) {
  std::filesystem::path name = path;
  if (name.extension() == ".gz") name = name.stem();
  if (name.extension() == ".txt") return {"text"};
  if (name.extension() == ".json") return columns_of_json(path);
  if (name.extension() != ".parquet") return columns_of_file(path, dialect);
  ColumnNames columns;
  for (const auto& column : read_parquet_schema(path).columns) columns.push_back(column.first);
  return columns;
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

ColumnNames text_columns_of_file(const std::string& path, const ColumnNames& given, const CsvDialect& dialect,
                                 const std::vector<ColumnNames>& usual) {
  if (!given.empty()) return given;
  const ColumnNames columns = columns_of_texts(path, dialect);
  for (const ColumnNames& names : usual) {
    if (std::all_of(names.begin(), names.end(), [&](const auto& name) { return has_column(columns, name); })) {
      return names;
    }
  }
  throw UsageError(fmt::format("which column holds the text? There are {}", fmt::join(columns, ", ")), path,
                   columns.size() == 1 && columns[0].find_first_of(";|\t") != std::string::npos
                       ? "if the fields are parted by another character than a comma, give it: --delimiter"
                       : "give --text-column, or two of a pair");
}

}  // namespace lockstep
