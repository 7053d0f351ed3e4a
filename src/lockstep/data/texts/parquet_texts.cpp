// Parquet as rows of texts, through Arrow C++ if the build has it.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/text_file.h"

#ifdef LOCKSTEP_PARQUET
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include <algorithm>

#include "lockstep/base/files/sha256.h"
#include "lockstep/data/texts/indexed_texts.h"
#include "lockstep/data/texts/label_columns.h"
#include "lockstep/data/texts/text_row_checks.h"
#endif

namespace lockstep {

#ifdef LOCKSTEP_PARQUET
namespace {

void require_arrow(const arrow::Status& status, const std::string& path) {
  if (!status.ok()) {
    throw Error("cannot read the Parquet file: " + status.ToString(), path, "check the path, or write the file again");
  }
}

template <typename T>
T value_or_error(arrow::Result<T> result, const std::string& path) {
  require_arrow(result.status(), path);
  return std::move(result).ValueUnsafe();
}

std::unique_ptr<parquet::arrow::FileReader> open_parquet(const std::string& path) {
  parquet::arrow::FileReaderBuilder builder;
  std::unique_ptr<parquet::arrow::FileReader> reader;
  require_arrow(builder.Open(value_or_error(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ), path)),
                path);
  require_arrow(builder.Build(&reader), path);
  return reader;
}

std::shared_ptr<arrow::Schema> schema_of(parquet::arrow::FileReader& reader, const std::string& path) {
  std::shared_ptr<arrow::Schema> schema;
  require_arrow(reader.GetSchema(&schema), path);
  return schema;
}

bool is_text_type(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return is_text_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

bool is_label_type(const arrow::DataType& type) {
  return is_text_type(type) || arrow::is_integer(type.id()) || type.id() == arrow::Type::BOOL;
}

class ParquetTexts : public TextDataset {
 public:
  ParquetTexts(const std::string& path, const TextFileOptions& options)
      : TextDataset({}), path_(path), settings_(digest_of(options, "parquet")) {
    TextRowChecks checks(options, path);
    refuse_label_columns(options, path);
    const std::unique_ptr<parquet::arrow::FileReader> reader = open_parquet(path);
    const std::shared_ptr<arrow::Schema> schema = schema_of(*reader, path);
    for (const std::string& name : options.texts) texts_.push_back(column(*reader, *schema, name, is_text_type));
    Column labels;
    if (!options.label.empty()) labels = column(*reader, *schema, options.label, is_label_type);
    find_rows(options, labels.get(), checks);
    checks.finish();
    set_info(checks.info());
    rows_ = checks.take_offsets();
    labels_ = checks.take_labels();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }

 private:
  using Column = std::shared_ptr<arrow::ChunkedArray>;

  Column column(parquet::arrow::FileReader& reader, const arrow::Schema& schema, const std::string& name,
                bool (*is_usable)(const arrow::DataType&)) const {
    const int index = schema.GetFieldIndex(name);
    if (index < 0) throw Error(no_such_column(name, schema.field_names()), path_, "name one of them");
    if (!is_usable(*schema.field(index)->type())) {
      throw Error(
          fmt::format("the column \"{}\" holds values of type {}", name, schema.field(index)->type()->ToString()),
          path_, "name a column of texts; labels may be texts, whole numbers or booleans");
    }
    Column values;
    require_arrow(reader.ReadColumn(index, &values), path_);
    return values;
  }

  void find_rows(const TextFileOptions& options, const arrow::ChunkedArray* labels, TextRowChecks& checks) const {
    for (std::int64_t row = 0; row < texts_[0]->length(); ++row) {
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        checks.text(i, value(*texts_[i], row).value_or(""),
                    [&] { return fmt::format("{}, row {}, column \"{}\"", path_, row + 1, options.texts[i]); });
      }
      if (labels != nullptr) {
        const auto where = [&] { return fmt::format("{}, row {}, column \"{}\"", path_, row + 1, options.label); };
        const std::optional<std::string> label = value(*labels, row);
        label ? checks.label(*label, where) : checks.no_label(where);
      }
      checks.end_row(static_cast<std::uint64_t>(row));
    }
  }

  // The text of a value; nothing for null.
  std::optional<std::string> value(const arrow::ChunkedArray& values, std::int64_t row) const {
    std::shared_ptr<arrow::Scalar> scalar = value_or_error(values.GetScalar(row), path_);
    if (scalar->is_valid && scalar->type->id() == arrow::Type::DICTIONARY) {
      scalar = value_or_error(static_cast<const arrow::DictionaryScalar&>(*scalar).GetEncodedValue(), path_);
    }
    if (!scalar->is_valid) return std::nullopt;
    if (is_text_type(*scalar->type)) return static_cast<const arrow::BaseBinaryScalar&>(*scalar).value->ToString();
    return scalar->ToString();
  }

  TextRow do_get(std::int64_t index) const override {
    TextRow row;
    const auto at = static_cast<std::int64_t>(rows_[index]);
    for (const Column& texts : texts_) row.texts.push_back(value(*texts, at).value_or(""));
    if (!labels_.empty()) row.label = labels_[index];
    return row;
  }

  std::string do_where(std::int64_t index) const override { return fmt::format("{}, row {}", path_, rows_[index] + 1); }

  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized(settings_);
    for (std::int64_t i = 0; i < size(); ++i) {
      const TextRow row = do_get(i);
      for (const std::string& text : row.texts) digest.update_sized(text);
      digest.update_number(row.label.value_or(-1));
    }
    return digest.hex();
  }

  std::string path_;
  std::string settings_;
  std::vector<Column> texts_;
  std::vector<std::uint64_t> rows_;  // the rows of the file that were kept
  std::vector<std::int32_t> labels_;
};

}  // namespace

bool has_parquet_reader() { return true; }

std::shared_ptr<const TextDataset> read_parquet_texts(const std::string& path, const TextFileOptions& options) {
  return std::make_shared<ParquetTexts>(path, options);
}

ParquetSchema read_parquet_schema(const std::string& path) {
  const std::unique_ptr<parquet::arrow::FileReader> reader = open_parquet(path);
  ParquetSchema out;
  out.rows = reader->parquet_reader()->metadata()->num_rows();
  const std::shared_ptr<arrow::Schema> schema = schema_of(*reader, path);
  for (const auto& field : schema->fields()) {
    out.columns.emplace_back(field->name(), field->type()->ToString());
  }
  return out;
}

#else

namespace {

[[noreturn]] void refuse_parquet(const std::string& path) {
  throw Error("this build has no reader for Parquet: Arrow C++ was not found when it was configured", path,
              "configure with Arrow C++ (docs/building.md), or convert the file, e.g. in Python: "
              "pandas.read_parquet(path).to_json(\"rows.jsonl\", orient=\"records\", lines=True)");
}

}  // namespace

bool has_parquet_reader() { return false; }

std::shared_ptr<const TextDataset> read_parquet_texts(const std::string& path, const TextFileOptions&) {
  refuse_parquet(path);
}

ParquetSchema read_parquet_schema(const std::string& path) { refuse_parquet(path); }

#endif

}  // namespace lockstep
