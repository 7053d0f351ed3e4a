#pragma once

#include <cstdint>

namespace lockstep {

/// Virtual shards `begin` to `end` - 1 of an update's global batch. See DistributedDataParallelOptions::virtual_shards.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const ShardRange& a, const ShardRange& b) { return a.begin == b.begin && a.end == b.end; }
};

}  // namespace lockstep
