#include "fuzz/targets/tables/columns.h"

#include "fuzz/fuzz_target.h"
#include "lockstep/base/error.h"
#include "lockstep/data/tables/block_cache.h"

namespace lockstep::fuzz {

void check_columns(const Table& table) {
  LOCKSTEP_HOLDS(table.rows() >= 0);
  constexpr std::int64_t kMostRows = 1 << 16;  // more of them are a matter of time, not of what is read
  if (table.rows() > kMostRows) return;
  for (std::size_t field = 0; field < table.fields().size(); ++field) {
    LOCKSTEP_HOLDS(!table.fields()[field].type.empty());
    if (table.fields()[field].kind == ValueKind::Other) continue;
    try {
      const auto column = table.column(field);
      BlockCache cache(std::size_t{1} << 20);
      BlockCache::Entry entry;
      for (std::int64_t row = 0; row < table.rows(); ++row) {
        if (!entry.holds(row)) entry = cache.get(field, *column, row);
        LOCKSTEP_HOLDS(entry.holds(row));
        const auto value = entry.value(row);
        LOCKSTEP_HOLDS(!value || value->size() <= std::size_t{1} << 30);
      }
    } catch (const Error& error) {
      LOCKSTEP_HOLDS(!error.where().empty());
    }
  }
}

}  // namespace lockstep::fuzz
