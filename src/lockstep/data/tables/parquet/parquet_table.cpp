#include "lockstep/data/tables/parquet/parquet_table.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/tables/parquet/parquet_column.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

class ParquetTable : public Table {
 public:
  explicit ParquetTable(const std::string& path) : file_(FileBytes::open(path)) {
    try {
      metadata_ = read_parquet_metadata(file_.view());
      std::size_t leaves = 0;
      columns_ = parquet_fields(metadata_.nodes, leaves);
      for (const ParquetRowGroup& group : metadata_.groups) {
        if (group.chunks.size() == leaves) continue;
        throw TableFault(
            fmt::format("a group of rows has {} columns, and the tree of columns {}", group.chunks.size(), leaves));
      }
    } catch (const TableFault& fault) {
      throw Error(fmt::format("cannot read the Parquet file: {}", fault.what()), path, fault.fix());
    }
    for (const ParquetField& column : columns_) fields_.push_back(column.field);
  }

  const std::string& path() const override { return file_.path(); }
  std::int64_t rows() const override { return metadata_.rows; }
  const std::vector<TableField>& fields() const override { return fields_; }

  std::optional<std::string> metadata(const std::string& key) const override {
    for (const auto& [name, text] : metadata_.texts) {
      if (name == key) return text;
    }
    return std::nullopt;
  }

  std::unique_ptr<TableColumn> column(std::size_t field) const override {
    return std::make_unique<ParquetColumn>(metadata_, columns_[field], file_.path());
  }

  void add_to(Sha256& digest) const override { digest.update_sized(file_.view()); }
  void require_whole() const override { file_.require_whole(); }
  void expect_random_access() override { file_.expect_random_access(); }

 private:
  FileBytes file_;
  ParquetMetadata metadata_;
  std::vector<ParquetField> columns_;
  std::vector<TableField> fields_;
};

}  // namespace

std::unique_ptr<Table> open_parquet_table(const std::string& path) { return std::make_unique<ParquetTable>(path); }

}  // namespace lockstep
