#include "lockstep/data/tables/arrow/arrow_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/tables/arrow/arrow_file.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

using ArrowFiles = std::vector<std::unique_ptr<ArrowFile>>;

/// A batch of rows of one of several files.
struct ArrowPlace {
  std::size_t file;
  std::size_t batch;
  std::int64_t first_row;
};

class ArrowColumn : public TableColumn {
 public:
  ArrowColumn(const ArrowFiles& files, const std::vector<ArrowPlace>& places, std::size_t field)
      : files_(files), places_(places), field_(field) {}

  std::size_t block_of(std::int64_t row) const override {
    const auto behind =
        std::upper_bound(places_.begin(), places_.end(), row,
                         [](std::int64_t wanted, const ArrowPlace& place) { return wanted < place.first_row; });
    return static_cast<std::size_t>(behind - places_.begin()) - 1;
  }

  std::int64_t first_row(std::size_t block) const override { return places_[block].first_row; }

  ColumnBlock decode(std::size_t block) const override {
    const ArrowPlace& place = places_[block];
    const ArrowFile& file = *files_[place.file];
    try {
      return file.column(field_, place.batch);
    } catch (const TableFault& fault) {
      throw Error(fmt::format("cannot read the Arrow file: {}", fault.what()),
                  fmt::format("{}, column \"{}\", in the rows from {} on", file.path(),
                              file.schema().fields[field_].field.name, place.first_row + 1),
                  fault.fix());
    }
  }

 private:
  const ArrowFiles& files_;
  const std::vector<ArrowPlace>& places_;
  std::size_t field_;
};

class ArrowTable : public Table {
 public:
  ArrowTable(std::string name, const std::vector<std::string>& files) : name_(std::move(name)) {
    for (const std::string& path : files) add(path);
    for (const ArrowField& field : files_.front()->schema().fields) fields_.push_back(field.field);
  }

  const std::string& path() const override { return name_; }
  std::int64_t rows() const override { return rows_; }
  const std::vector<TableField>& fields() const override { return fields_; }

  std::optional<std::string> metadata(const std::string& key) const override {
    for (const auto& [name, text] : files_.front()->schema().texts) {
      if (name == key) return text;
    }
    return std::nullopt;
  }

  std::unique_ptr<TableColumn> column(std::size_t field) const override {
    return std::make_unique<ArrowColumn>(files_, places_, field);
  }

  void add_to(Sha256& digest) const override {
    for (const auto& file : files_) digest.update_sized(file->view());
  }
  void require_whole() const override {
    for (const auto& file : files_) file->require_whole();
  }
  void expect_random_access() override {
    for (const auto& file : files_) file->expect_random_access();
  }

 private:
  void add(const std::string& path) {
    files_.push_back(std::make_unique<ArrowFile>(path));
    const ArrowFile& file = *files_.back();
    const std::vector<ArrowField>& first = files_.front()->schema().fields;
    const std::vector<ArrowField>& mine = file.schema().fields;
    const auto is_same = [](const ArrowField& a, const ArrowField& b) {
      return a.field.name == b.field.name && a.field.kind == b.field.kind;
    };
    if (!std::equal(first.begin(), first.end(), mine.begin(), mine.end(), is_same)) {
      throw Error(fmt::format("its columns differ from those of {}", files_.front()->path()), path,
                  "write both from one dataset");
    }
    for (std::size_t batch = 0; batch < file.batches(); ++batch) {
      places_.push_back({files_.size() - 1, batch, rows_});
      rows_ += file.rows(batch);
    }
  }

  std::string name_;
  ArrowFiles files_;
  std::vector<ArrowPlace> places_;
  std::vector<TableField> fields_;
  std::int64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<Table> open_arrow_table(const std::string& name, const std::vector<std::string>& files) {
  return std::make_unique<ArrowTable>(name, files);
}

}  // namespace lockstep
