#include "lockstep/data/texts/table_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/tables/block_cache.h"
#include "lockstep/data/tables/class_names.h"
#include "lockstep/data/texts/class_column.h"
#include "lockstep/data/texts/indexed_texts.h"
#include "lockstep/data/texts/label_columns.h"
#include "lockstep/data/texts/number_label.h"
#include "lockstep/data/texts/text_row_checks.h"

namespace lockstep {
namespace {

constexpr std::size_t kCachedBytes = std::size_t{256} << 20;

/// A column that is read, and its place in the table.
struct ReadColumn {
  std::size_t field = 0;
  ValueKind kind = ValueKind::Other;
  std::unique_ptr<TableColumn> values;
};

class TableTexts : public TextDataset {
 public:
  TableTexts(std::unique_ptr<Table> table, TextFileOptions options, const std::string& format)
      : TextDataset({}), table_(std::move(table)), cache_(kCachedBytes) {
    for (const std::string& name : options.texts) texts_.push_back(column(name, is_text));
    if (!options.label.empty()) labels_of_rows_.push_back(column(options.label, is_label));
    for (const std::string& name : options.label_columns) labels_of_rows_.push_back(column(name, is_label));
    find_classes(options);
    settings_ = digest_of(options, format);
    find_rows(options);
    table_->expect_random_access();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }

 private:
  static bool is_text(ValueKind kind) { return kind == ValueKind::Text; }
  static bool is_label(ValueKind kind) { return kind != ValueKind::Other; }

  ReadColumn column(const std::string& name, bool (*is_usable)(ValueKind)) const {
    const std::vector<TableField>& fields = table_->fields();
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
    if (found == fields.end()) {
      std::vector<std::string> names;
      for (const TableField& field : fields) names.push_back(field.name);
      throw Error(no_such_column(name, names), table_->path(), "name one of them");
    }
    if (std::any_of(found + 1, fields.end(), [&](const auto& field) { return field.name == name; })) {
      throw Error(fmt::format("the column \"{}\" occurs twice", name), table_->path(), "rename one of the two");
    }
    if (!is_usable(found->kind)) {
      throw Error(fmt::format("the column \"{}\" holds values of type {}", name, found->type), table_->path(),
                  "name a column of texts; labels may be texts, numbers or booleans");
    }
    const auto field = static_cast<std::size_t>(found - fields.begin());
    return {field, found->kind, table_->column(field)};
  }

  // A column of classes may have names for them in what datasets wrote into the file.
  void find_classes(TextFileOptions& options) {
    if (options.label.empty() || labels_of_rows_[0].kind != ValueKind::Whole) return;
    const std::optional<std::string> description = table_->metadata("huggingface");
    if (!description) return;
    std::vector<std::string> names = class_names(*description, options.label);
    if (!names.empty()) classes_.emplace(std::move(names), options);
  }

  void find_rows(const TextFileOptions& options) {
    TextRowChecks checks(options, table_->path());
    LabelColumns sets(options.label_columns);
    std::vector<BlockCache::Entry> blocks(texts_.size() + labels_of_rows_.size());
    const auto value = [&](const ReadColumn& column, std::size_t i, std::int64_t row) {
      if (!blocks[i].holds(row)) blocks[i] = cache_.get(column.field, *column.values, row);
      return blocks[i].value(row);
    };
    for (std::int64_t row = 0; row < table_->rows(); ++row) {
      const auto where = [&](const std::string& name) {
        return [&, row] { return fmt::format("{}, row {}, column \"{}\"", table_->path(), row + 1, name); };
      };
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        checks.text(i, value(texts_[i], i, row).value_or(""), where(options.texts[i]));
      }
      if (!options.label.empty()) {
        check_label(value(labels_of_rows_[0], texts_.size(), row), options, checks, where(options.label));
      }
      for (std::size_t i = 0; i < options.label_columns.size(); ++i) {
        const auto flag = value(labels_of_rows_[i], texts_.size() + i, row);
        sets.add(i, flag.value_or("null"), where(options.label_columns[i]));
      }
      if (!options.label_columns.empty()) checks.label_set(sets.take(), where(options.label_columns[0]));
      checks.end_row(static_cast<std::uint64_t>(row));
    }
    table_->require_whole();
    checks.finish();
    set_info(checks.info());
    rows_ = checks.take_offsets();
    labels_ = checks.take_labels();
  }

  void check_label(std::optional<std::string_view> value, const TextFileOptions& options, TextRowChecks& checks,
                   const TextRowChecks::Where& where) const {
    if (value && classes_) value = classes_->label(*value, where);
    if (!value) return checks.no_label(where);
    if (labels_of_rows_[0].kind != ValueKind::Fraction) return checks.label(*value, where);
    checks.label(number_label(*value, options.label, options.fractions, where), where);
  }

  TextRow do_get(std::int64_t index) const override {
    TextRow row;
    const auto at = static_cast<std::int64_t>(rows_[index]);
    for (const ReadColumn& column : texts_) {
      row.texts.emplace_back(cache_.get(column.field, *column.values, at).value(at).value_or(""));
    }
    table_->require_whole();
    if (!labels_.empty()) row.label = labels_[index];
    return row;
  }

  std::string do_where(std::int64_t index) const override {
    return fmt::format("{}, row {}", table_->path(), rows_[index] + 1);
  }

  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized(settings_);
    table_->add_to(digest);
    table_->require_whole();
    return digest.hex();
  }

  std::unique_ptr<Table> table_;
  std::vector<ReadColumn> texts_;
  std::vector<ReadColumn> labels_of_rows_;  // one, or those of `label_columns`
  std::optional<ClassColumn> classes_;
  std::string settings_;
  mutable BlockCache cache_;
  std::vector<std::uint64_t> rows_;  // the rows of the table that were kept
  std::vector<std::int32_t> labels_;
};

}  // namespace

std::shared_ptr<const TextDataset> texts_of_table(std::unique_ptr<Table> table, const TextFileOptions& options,
                                                  const std::string& format) {
  return std::make_shared<TableTexts>(std::move(table), options, format);
}

TableSchema schema_of_table(const Table& table) {
  TableSchema schema;
  schema.rows = table.rows();
  for (const TableField& field : table.fields()) schema.columns.emplace_back(field.name, field.type);
  return schema;
}

}  // namespace lockstep
