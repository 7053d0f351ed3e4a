// `lockstep inspect` for datasets: tables, JSON Lines, IDX files, lines of text.
#include <ATen/ops/bincount.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/base/text/text_line.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/csv/joined_lines.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/idx.h"
#include "tools/lockstep/inspect/column_summary.h"
#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {
namespace {

// A value in the form of a label's text.
std::string cell_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

nlohmann::json parse_line(std::string_view line, const std::string& where) {
  const auto too_deep = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > 64) throw std::length_error("values are nested more than 64 deep");
    return true;
  };
  try {
    auto object = nlohmann::json::parse(line, too_deep);
    if (object.is_object()) return object;
  } catch (const nlohmann::json::exception& error) {
    throw Error("the line is not JSON: " + json_problem(error), where, "correct the line");
  } catch (const std::length_error& error) {
    throw Error(error.what(), where, "correct the line");
  }
  throw Error("the line is JSON, but not an object", where, "write one object per line: {\"text\": …}");
}

}  // namespace

Inspection inspect_table(const std::string& path, const TableForm& form) {
  const FileBytes file = FileBytes::open(path);
  CsvTokenizer records(file.view(), path, form.dialect);
  std::vector<CsvField> fields;
  std::string storage;
  if (!records.next(fields)) throw Error("the file is empty", path, "name a file with rows");
  std::vector<ColumnSummary> columns;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    columns.emplace_back(form.has_header ? std::string(fields[i].value(storage)) : fmt::format("column {}", i + 1));
  }
  std::int64_t rows = 0;
  JoinedLines joined(path, records.delimiter());
  for (bool is_row = !form.has_header || records.next(fields); is_row; is_row = records.next(fields)) {
    if (fields.size() != columns.size()) {
      throw Error(fmt::format("the record has {} fields, but the first {}", fields.size(), columns.size()),
                  records.where(fields.front()),
                  "quote fields that hold the delimiter, or describe the file with --delimiter and --quoting");
    }
    for (std::size_t i = 0; i < fields.size(); ++i) columns[i].add(fields[i].value(storage));
    joined.look_at(fields, records);
    ++rows;
  }
  joined.warn();
  return summary_of_columns("table", path, rows, columns);
}

Inspection inspect_json_lines(const std::string& path) {
  const FileBytes file = FileBytes::open(path);
  std::vector<ColumnSummary> columns;
  std::map<std::string, std::size_t> column_of;
  std::int64_t rows = 0;
  std::int64_t number = 1;
  for (std::string_view rest = file.view(); !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const nlohmann::json object = parse_line(line, path + ":" + std::to_string(number));
    for (const auto& [key, value] : object.items()) {
      const auto [at, is_new] = column_of.emplace(key, columns.size());
      if (is_new) columns.emplace_back(key);
      columns[at->second].add(cell_text(value));
    }
    ++rows;
  }
  return summary_of_columns("json lines", path, rows, columns);
}

Inspection inspect_idx(const std::string& path) {
  const at::Tensor tensor = read_idx(path);
  Inspection out{{"kind", "idx"}, {"path", path}, {"bytes", std::filesystem::file_size(path)}};
  out["dtype"] = c10::toString(tensor.scalar_type());
  out["shape"] = tensor.sizes().vec();
  if (tensor.numel() == 0) return out;
  out["min"] = tensor.min().item<double>();
  out["max"] = tensor.max().item<double>();
  if (tensor.dim() == 1 && tensor.scalar_type() == at::kByte) {
    const at::Tensor counts = tensor.bincount();
    for (std::int64_t i = 0; i < counts.numel(); ++i) {
      if (const auto count = counts[i].item<std::int64_t>(); count > 0) out["labels"][std::to_string(i)] = count;
    }
  }
  return out;
}

Inspection inspect_lines(const std::string& path) {
  const FileBytes file = FileBytes::open(path);
  const std::string_view text = file.view();
  if (text.find('\0') != std::string_view::npos) {
    throw Error("the file contains a NUL byte, so it is not text", path,
                "name a text file, or one of the kinds in the help");
  }
  std::vector<ColumnSummary> columns;
  columns.emplace_back("text");
  std::int64_t rows = 0;
  for (std::string_view rest = text; !rest.empty(); ++rows) columns[0].add(take_line(rest));
  return summary_of_columns("text", path, rows, columns);
}

}  // namespace lockstep
