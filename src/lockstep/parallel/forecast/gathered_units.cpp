#include "lockstep/parallel/forecast/gathered_units.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

GatheredUnits::GatheredUnits(const std::vector<BucketLayout>& buckets, const std::vector<std::size_t>& units) {
  const std::size_t last = units.empty() ? 0 : *std::max_element(units.begin(), units.end());
  has_.assign(last + 1, std::vector<bool>(buckets.size()));
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    bytes_.push_back(buckets[bucket].bytes);
    for (const std::size_t parameter : buckets[bucket].params) {
      has_[units.empty() ? 0 : units[parameter]][bucket] = true;
    }
  }
  for (const std::size_t unit : units) {
    if (unit != 0 && std::find(order_.begin(), order_.end(), unit) == order_.end()) order_.push_back(unit);
  }
}

std::vector<std::int64_t> GatheredUnits::outside() const {
  std::vector<std::int64_t> bytes;
  for (std::size_t bucket = 0; bucket < bytes_.size(); ++bucket) {
    if (has(0, bucket)) bytes.push_back(bytes_[bucket]);
  }
  return bytes;
}

std::vector<std::int64_t> GatheredUnits::beside(std::size_t place, std::size_t neighbour) const {
  std::vector<std::int64_t> bytes;
  for (std::size_t bucket = 0; bucket < bytes_.size(); ++bucket) {
    const bool is_here = has(0, bucket) || (neighbour != place && has(order_[neighbour], bucket));
    if (has(order_[place], bucket) && !is_here) bytes.push_back(bytes_[bucket]);
  }
  return bytes;
}

std::int64_t GatheredUnits::most_bytes() const {
  const auto sum = [](const std::vector<std::int64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  };
  std::int64_t most = 0;
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const std::int64_t alone = sum(beside(place, place));
    const std::int64_t next = place + 1 < order_.size() ? sum(beside(place + 1, place)) : 0;
    most = std::max(most, alone + next);
  }
  return sum(outside()) + most;
}

}  // namespace lockstep
