// `lockstep inspect` for datasets that are read as a whole: JSON, in SQuAD's format or another, and Parquet.
#include <fmt/format.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text_file.h"
#include "tools/lockstep/inspect/column_summary.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

// Columns of all rows, whatever their texts contain.
Inspection summary_of_rows(const char* kind, const std::string& path, const TextDataset& rows) {
  std::vector<ColumnSummary> columns(rows.fields().begin(), rows.fields().end());
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const TextRow row = rows.get(i);
    for (std::size_t column = 0; column < columns.size(); ++column) columns[column].add(row.texts[column]);
  }
  return summary_of_columns(kind, path, rows.size(), columns);
}

TextFileOptions all_rows(const std::vector<std::string>& columns) {
  TextFileOptions options;
  options.texts = columns;
  options.empty_texts = options.invalid_texts = RowPolicy::Keep;
  return options;
}

// One row per question, and the number of contexts.
Inspection inspect_squad(const std::string& path) {
  const auto contexts = read_squad_texts(path, all_rows({"title", "context"}), SquadRows::Contexts);
  const auto questions = read_squad_texts(path, all_rows({"id", "title", "context", "question"}));
  Inspection out = summary_of_rows("squad", path, *questions);
  out["contexts"] = contexts->size();
  return out;
}

// A list of objects that are not articles of SQuAD's form.
bool holds_other_rows(const nlohmann::json& data) {
  return data.is_array() && !data.empty() && data[0].is_object() && !data[0].contains("paragraphs");
}

const char* kind_of(const nlohmann::json& value) {
  return value.is_object() ? "object" : value.is_array() ? "array" : "value";
}

// The size of a file, or of the files in a folder.
std::uintmax_t bytes_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  std::uintmax_t bytes = 0;
  for (const auto& item : std::filesystem::directory_iterator(path)) {
    if (item.is_regular_file()) bytes += item.file_size();
  }
  return bytes;
}

}  // namespace

Inspection inspect_json(const std::string& path) {
  const FileBytes file = FileBytes::open_text(path);
  const nlohmann::json document = text::parse_json(file.view(), path);
  if (document.is_object() && document.contains("data") && !holds_other_rows(document["data"])) {
    return inspect_squad(path);
  }
  Inspection out{{"kind", "json"}, {"path", path}, {"bytes", std::filesystem::file_size(path)}};
  out["type"] = kind_of(document);
  out["entries"] = document.size();
  out["keys"] = Inspection::array();
  if (!document.is_object()) return out;
  constexpr std::size_t kMostKeys = 64;  // a vocabulary has more, and they are not informative
  for (const auto& [key, value] : document.items()) {
    if (out["keys"].size() == kMostKeys) break;
    out["keys"].push_back(key);
  }
  return out;
}

Inspection inspect_columns(const char* kind, const std::string& path, const TableSchema& schema) {
  Inspection out{{"kind", kind}, {"path", path}, {"bytes", bytes_of(path)}, {"rows", schema.rows}};
  out["columns"] = Inspection::array();
  for (const auto& [name, type] : schema.columns) out["columns"].push_back({{"name", name}, {"type", type}});
  return out;
}

}  // namespace lockstep
