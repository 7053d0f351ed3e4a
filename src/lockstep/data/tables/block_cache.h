#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lockstep/data/tables/table_column.h"

namespace lockstep {

/// The blocks that were used last, of all columns of a table. The calls may run on several threads at once.
class BlockCache {
 public:
  /// A block and where it begins.
  struct Entry {
    std::shared_ptr<const ColumnBlock> block;
    std::int64_t first_row = 0;

    bool holds(std::int64_t row) const {
      return block && row >= first_row && row - first_row < static_cast<std::int64_t>(block->rows());
    }
    std::optional<std::string_view> value(std::int64_t row) const {
      return block->value(static_cast<std::size_t>(row - first_row));
    }
  };

  /// @param most_bytes  of decoded values that are kept; one block is kept whatever its size
  explicit BlockCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The block of `column` that holds `row`. @param key  the column's number. @throws Error  as TableColumn::decode
  Entry get(std::size_t key, const TableColumn& column, std::int64_t row);

 private:
  using Key = std::pair<std::size_t, std::size_t>;
  struct Kept {
    Key key;
    Entry entry;
    std::size_t bytes;
  };

  void drop_oldest();

  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // the last one used first
  std::map<Key, std::list<Kept>::iterator> places_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
