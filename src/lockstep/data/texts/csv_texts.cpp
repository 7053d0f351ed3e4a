// CSV and TSV as rows of texts.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/csv/decimal.h"
#include "lockstep/data/csv/delimiter_hint.h"
#include "lockstep/data/csv/joined_lines.h"
#include "lockstep/data/texts/indexed_texts.h"
#include "lockstep/data/texts/label_columns.h"

namespace lockstep {
namespace {

class CsvTexts : public IndexedTexts {
 public:
  CsvTexts(const std::string& path, const TextFileOptions& options)
      : IndexedTexts(path, options, "csv"), dialect_(options.dialect) {
    CsvTokenizer tokenizer(view(), path, dialect_);
    TextRowChecks checks(options, path);
    find_columns(options, tokenizer);
    find_rows(options, tokenizer, checks);
    set_rows(checks);
  }

 private:
  void find_columns(const TextFileOptions& options, CsvTokenizer& tokenizer) {
    std::vector<std::string> names = options.column_names;
    std::string where = path();
    if (names.empty()) {
      std::vector<CsvField> fields;
      if (!tokenizer.next(fields)) throw Error("the file is empty", path(), "give a file with a header and records");
      std::string scratch;
      for (const CsvField& field : fields) names.emplace_back(field.value(scratch));
      where = tokenizer.where(fields.front());
    }
    num_columns_ = names.size();
    const auto at = [&](const std::string& name) { return column(name, names, where, options.column_names.empty()); };
    for (const std::string& name : options.texts) text_columns_.push_back(at(name));
    if (!options.label.empty()) label_column_ = at(options.label);
    for (const std::string& name : options.label_columns) label_columns_.push_back(at(name));
  }

  static std::size_t column(const std::string& name, const std::vector<std::string>& names, const std::string& where,
                            bool has_header) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw Error(
          no_such_column(name, names), where,
          delimiter_hint(names) +
              (has_header ? "name one of them; check the delimiter, and whether the file has a header (without one: "
                            "--no-header, and the columns' numbers, from 1)"
                          : "name one of them, such as --text-column 1 --label-column 2; if the first record has the "
                            "names of the columns, leave --no-header out"));
    }
    if (std::find(found + 1, names.end(), name) != names.end()) {
      throw Error(fmt::format("the column \"{}\" occurs twice", name), where, "rename one of the two");
    }
    return static_cast<std::size_t>(found - names.begin());
  }

  void find_rows(const TextFileOptions& options, CsvTokenizer& tokenizer, TextRowChecks& checks) const {
    std::vector<CsvField> fields;
    std::string scratch;
    LabelColumns sets(options.label_columns);
    JoinedLines joined(path(), dialect_.delimiter, text_columns_);
    const std::int64_t label = options.label.empty() ? -1 : static_cast<std::int64_t>(label_column_);
    while (tokenizer.next(fields)) {
      if (fields.size() != num_columns_) {
        throw Error(fmt::format("{} fields expected, {} found", num_columns_, fields.size()),
                    tokenizer.where(fields[std::min(fields.size(), num_columns_) - 1]),
                    "correct the line, or check the delimiter, the quote and the columns");
      }
      joined.look_at(fields, tokenizer, label);
      const auto where = [&](std::size_t column) { return [&, column] { return tokenizer.where(fields[column]); }; };
      for (std::size_t i = 0; i < text_columns_.size(); ++i) {
        checks.text(i, fields[text_columns_[i]].value(scratch), where(text_columns_[i]));
      }
      if (!options.label.empty()) checks.label(fields[label_column_].value(scratch), where(label_column_));
      for (std::size_t i = 0; i < label_columns_.size(); ++i) {
        sets.add(i, fields[label_columns_[i]].value(scratch), where(label_columns_[i]));
      }
      if (!label_columns_.empty()) checks.label_set(sets.take(), where(label_columns_[0]));
      checks.end_row(tokenizer.record_offset());
    }
    // A fraction is a number to predict, and need not occur twice.
    joined.warn([&](std::string_view text) {
      return checks.knows_label(text) || (text.find('.') != std::string_view::npos && parse_decimal(text).has_value());
    });
  }

  std::vector<std::string> do_texts(std::uint64_t offset) const override {
    CsvTokenizer tokenizer(view(), path(), dialect_);
    tokenizer.seek(offset, 1);
    std::vector<CsvField> fields;
    tokenizer.next(fields);
    if (fields.size() != num_columns_) {
      throw Error(fmt::format("the file changed while it was read: {} fields at byte {}", fields.size(), offset),
                  path(), "write new files beside the old ones, and rename them");
    }
    std::vector<std::string> texts;
    std::string scratch;
    for (const std::size_t column : text_columns_) texts.emplace_back(fields[column].value(scratch));
    return texts;
  }

  CsvDialect dialect_;
  std::size_t num_columns_ = 0;
  std::vector<std::size_t> text_columns_;
  std::size_t label_column_ = 0;
  std::vector<std::size_t> label_columns_;
};

// With the delimiter of a format, if none is given.
TextFileOptions delimited(TextFileOptions options, char usual) {
  if (options.dialect.delimiter == '\0') options.dialect.delimiter = usual;
  return options;
}

}  // namespace

std::shared_ptr<const TextDataset> read_csv_texts(const std::string& path, const TextFileOptions& options) {
  return std::make_shared<CsvTexts>(path, delimited(options, ','));
}

std::shared_ptr<const TextDataset> read_tsv_texts(const std::string& path, const TextFileOptions& options) {
  return std::make_shared<CsvTexts>(path, delimited(options, '\t'));
}

}  // namespace lockstep
