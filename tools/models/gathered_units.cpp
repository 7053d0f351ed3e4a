#include "tools/models/gathered_units.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {

std::vector<std::int64_t> unit_parts(const std::vector<std::int64_t>& bytes, const std::vector<std::size_t>& units,
                                     const std::vector<bool>& has_copy) {
  if (has_copy.empty()) return {};
  const auto unit_of = [&](std::size_t i) { return units.empty() ? 0 : units[i]; };
  std::vector<std::int64_t> parts;
  std::vector<bool> has_any;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t unit = unit_of(i);
    if (unit >= parts.size()) {
      parts.resize(unit + 1);
      has_any.resize(unit + 1);
    }
    parts[unit] += has_copy[i] ? bytes[i] / 2 : bytes[i];
    if (has_copy[i]) has_any[unit] = true;
  }
  for (std::size_t unit = 0; unit < parts.size(); ++unit) {
    if (!has_any[unit]) parts[unit] = 0;
  }
  return parts;
}

GatheredUnits::GatheredUnits(const std::vector<BucketLayout>& buckets, const std::vector<std::size_t>& units,
                             std::vector<std::int64_t> parts)
    : parts_(std::move(parts)) {
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
  if (part(0) > 0) return {part(0)};
  std::vector<std::int64_t> bytes;
  for (std::size_t bucket = 0; bucket < bytes_.size(); ++bucket) {
    if (has(0, bucket)) bytes.push_back(bytes_[bucket]);
  }
  return bytes;
}

std::vector<std::int64_t> GatheredUnits::beside(std::size_t place, std::size_t neighbour) const {
  if (part(order_[place]) > 0) return {part(order_[place])};
  std::vector<std::int64_t> bytes;
  for (std::size_t bucket = 0; bucket < bytes_.size(); ++bucket) {
    const bool is_here = brings(0, bucket) || (neighbour != place && brings(order_[neighbour], bucket));
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
