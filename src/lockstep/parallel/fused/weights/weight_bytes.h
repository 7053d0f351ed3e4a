#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Counts the memory that weights in shards take on this rank: shards, messages that stay, and what is gathered.
class WeightBytes {
 public:
  void add(std::int64_t bytes) { now_ += bytes; }
  void take(std::int64_t bytes) { now_ -= bytes; }
  /// It may be at its peak now.
  void note_peak() { peak_ = std::max(peak_, now_); }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t now_ = 0, peak_ = 0;
};

}  // namespace lockstep
