#include "lockstep/data/csv/csv_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/csv/joined_lines.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep {
namespace {

// A field for a message: quoted, short, and with control characters escaped, because a NUL would end the message.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  return fmt::format("{:?}{}", text.substr(0, kMost), text.size() > kMost ? "…" : "");
}

// Values and names are saved with a model, as JSON. Called once for each different text.
void require_utf8(std::string_view text, const std::string& column, const std::string& where) {
  const std::optional<std::size_t> bad = text::find_invalid_utf8(text);
  if (!bad) return;
  throw Error(fmt::format("byte {} of {} in the column {}, {:#04x}, is not UTF-8", *bad + 1, shown(text), shown(column),
                          static_cast<unsigned char>(text[*bad])),
              where, "store the file as UTF-8; iconv -f ENCODING -t UTF-8 FILE converts it");
}

std::string names(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> all;
  for (const CsvColumn& column : columns) all.push_back(column.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

CsvColumns::CsvColumns(std::string_view text, const std::string& path, const CsvSchema& schema)
    : schema_(schema),
      path_(path),
      column_of_field_(schema.columns.size()),
      data_(schema.columns.size()),
      ids_(schema.columns.size()) {
  CsvTokenizer tokenizer(text, path, schema.dialect);
  if (schema.header) {
    map_header(tokenizer);
  } else {
    std::iota(column_of_field_.begin(), column_of_field_.end(), 0);
  }
  make_targets();
  std::vector<CsvField> fields;
  const std::size_t begin = tokenizer.offset();
  JoinedLines joined(path, tokenizer.delimiter());
  while (tokenizer.next(fields)) {
    add_record(fields, tokenizer);
    joined.look_at(fields, tokenizer);
    if (rows_ == 1) reserve(text.size() / (tokenizer.offset() - begin) + 1);
  }
  joined.warn();
  if (rows_ == 0) {
    throw Error("the CSV file has no records", path, schema.header ? "add some below the header" : "add some");
  }
}

void CsvColumns::map_header(CsvTokenizer& tokenizer) {
  std::vector<CsvField> fields;
  if (!tokenizer.next(fields)) throw Error("the CSV file is empty", path_, "give a file with a header and records");
  std::vector<bool> seen(schema_.columns.size(), false);
  column_of_field_.clear();
  for (const CsvField& field : fields) {
    const std::string name(field.value(scratch_));
    require_utf8(name, name, tokenizer.where(field));
    const auto found = std::find_if(schema_.columns.begin(), schema_.columns.end(),
                                    [&](const CsvColumn& column) { return column.name == name; });
    if (found == schema_.columns.end()) {
      throw Error(fmt::format("column {} is not declared; declared are: {}", shown(name), names(schema_.columns)),
                  tokenizer.where(field), "declare it, as ignored if it is not needed");
    }
    const auto column = static_cast<std::size_t>(found - schema_.columns.begin());
    if (seen[column]) {
      throw Error(fmt::format("column {} occurs twice", shown(name)), tokenizer.where(field), "rename one of the two");
    }
    seen[column] = true;
    column_of_field_.push_back(column);
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return;
  throw Error(fmt::format("the header has no column \"{}\"", schema_.columns[missing - seen.begin()].name),
              tokenizer.where(fields.back()), "check the names, the delimiter, and whether the file has a header");
}

void CsvColumns::make_targets() {
  for (const std::size_t column : column_of_field_) {
    const CsvColumn& declared = schema_.columns[column];
    targets_.push_back(
        {declared.kind, declared.scaling == CsvColumn::Scaling::LogMinMax, column, &data_[column].numbers});
  }
}

void CsvColumns::add_record(const std::vector<CsvField>& fields, const CsvTokenizer& tokenizer) {
  if (fields.size() != targets_.size()) {
    throw Error(fmt::format("{} fields expected, {} found", targets_.size(), fields.size()),
                tokenizer.where(fields[std::min(fields.size(), targets_.size()) - 1]),
                "correct the line, or check the delimiter and the declared columns");
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Target& target = targets_[i];
    if (target.kind == CsvColumn::Kind::Number) {
      const std::optional<double> number = parse_decimal(fields[i].text);
      if (!number || (*number < 0 && target.logarithm)) {
        refuse_number(schema_.columns[target.column], fields[i], tokenizer);
      }
      target.numbers->push_back(*number);
    } else if (target.kind != CsvColumn::Kind::Ignored) {
      add_text(target.column, fields[i], tokenizer);
    }
  }
  ++rows_;
}

void CsvColumns::refuse_number(const CsvColumn& column, const CsvField& field, const CsvTokenizer& tokenizer) const {
  if (parse_decimal(field.text)) {
    throw Error(
        fmt::format("{} in the column \"{}\" is negative, but its logarithm is needed", shown(field.text), column.name),
        tokenizer.where(field), "choose another scaling for this column");
  }
  const bool is_blank = field.text.find_first_not_of(" \t") == std::string_view::npos;
  throw Error(is_blank ? fmt::format("the cell of the column \"{}\", which holds numbers, is blank", column.name)
                       : fmt::format("{} in the column \"{}\" is not a finite number", shown(field.text), column.name),
              tokenizer.where(field),
              "write a number there, or remove the row or the column; in a program, declare the column as a category "
              "or as ignored");
}

void CsvColumns::reserve(std::size_t rows) {
  for (std::size_t i = 0; i < data_.size(); ++i) {
    const bool number = schema_.columns[i].kind == CsvColumn::Kind::Number;
    if (number) data_[i].numbers.reserve(rows);
    if (!number && schema_.columns[i].kind != CsvColumn::Kind::Ignored) data_[i].text_ids.reserve(rows);
  }
}

void CsvColumns::add_text(std::size_t column, const CsvField& field, const CsvTokenizer& tokenizer) {
  CsvColumnData& data = data_[column];
  const std::string_view text = field.value(scratch_);
  if (!data.text_ids.empty() && data.texts[data.text_ids.back()] == text) {  // often equal to the line above
    data.text_ids.push_back(data.text_ids.back());
    return;
  }
  const auto known = ids_[column].find(text);
  if (known != ids_[column].end()) {
    data.text_ids.push_back(known->second);
    return;
  }
  if (data.texts.size() == kMostTexts) {
    throw Error(fmt::format("there are more than {} different texts in the column \"{}\"", kMostTexts,
                            schema_.columns[column].name),
                tokenizer.where(field), "declare the column as a number or as ignored");
  }
  require_utf8(text, schema_.columns[column].name, tokenizer.where(field));
  const auto id = static_cast<std::int32_t>(data.texts.size());
  const std::string_view kept = text.data() == scratch_.data() ? unescaped_.emplace_back(text) : text;
  ids_[column].emplace(kept, id);
  data.texts.push_back(kept);
  data.first_where.push_back(tokenizer.where(field));
  data.text_ids.push_back(id);
}

}  // namespace lockstep
