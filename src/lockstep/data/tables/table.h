#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/files/sha256.h"
#include "lockstep/data/tables/table_column.h"

namespace lockstep {

/// What a program can read the values of a column as.
enum class ValueKind { Text, Whole, Boolean, Fraction, Other };

/// A column, as a file describes it.
struct TableField {
  std::string name;
  std::string type;  ///< in Arrow's terms, such as "int64" or "list<string>"
  ValueKind kind = ValueKind::Other;
};

/// A file of columns, or several that are one table.
///
/// The calls may run on several threads at once.
class Table {
 public:
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  virtual const std::string& path() const = 0;
  virtual std::int64_t rows() const = 0;
  virtual const std::vector<TableField>& fields() const = 0;
  /// What whoever wrote the file said of it under this key.
  virtual std::optional<std::string> metadata(const std::string& key) const = 0;
  /// The values of a field whose kind is not Other; the table must outlive it. @throws Error  if they cannot be read
  virtual std::unique_ptr<TableColumn> column(std::size_t field) const = 0;
  /// Adds everything that the rows depend on.
  virtual void add_to(Sha256& digest) const = 0;
  /// @throws Error  if a file was shortened since it was opened
  virtual void require_whole() const = 0;
  /// Tells the system that rows are read at random from now on.
  virtual void expect_random_access() = 0;

 protected:
  Table() = default;
};

}  // namespace lockstep
