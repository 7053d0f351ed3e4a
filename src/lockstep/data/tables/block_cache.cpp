#include "lockstep/data/tables/block_cache.h"

namespace lockstep {

BlockCache::Entry BlockCache::get(std::size_t key, const TableColumn& column, std::int64_t row) {
  const std::size_t number = column.block_of(row);
  const Key place{key, number};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = places_.find(place);
    if (found != places_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return found->second->entry;
    }
  }
  // Without the lock: two threads may decode the same block, and then one of them is kept.
  const Entry entry{std::make_shared<const ColumnBlock>(column.decode(number)), column.first_row(number)};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (places_.count(place) != 0) return entry;
  kept_.push_front({place, entry, entry.block->memory_bytes()});
  places_[place] = kept_.begin();
  bytes_ += kept_.front().bytes;
  while (bytes_ > most_bytes_ && kept_.size() > 1) drop_oldest();
  return entry;
}

void BlockCache::drop_oldest() {
  bytes_ -= kept_.back().bytes;
  places_.erase(kept_.back().key);
  kept_.pop_back();
}

}  // namespace lockstep
