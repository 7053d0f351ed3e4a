#include "bench/workers/all_reduce_turn.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRotatedBytes = std::size_t{128} << 20;
constexpr std::size_t kLeastStrideBytes = 4096;
constexpr std::size_t kMostOperations = 2000;
constexpr std::size_t kEvictedBytes = std::size_t{32} << 20;  // larger than a core's own caches
constexpr std::size_t kOperationsPerSample = 50;              // for small tensors: reading the clock takes 20 to 30 ns

struct Turn {
  std::size_t count;       // floats in one operation
  std::size_t stride;      // floats between two buffers
  std::size_t positions;   // buffers, each used once
  std::size_t per_sample;  // operations between two looks at the clock; divides `positions`
};

Turn plan(std::size_t bytes, std::size_t region) {
  const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
  const std::size_t stride_bytes = (std::max(bytes, kLeastStrideBytes) + 4095) / 4096 * 4096;
  const std::size_t room = std::clamp<std::size_t>(region / stride_bytes, 1, kMostOperations);
  const std::size_t per_sample = room >= 4 * kOperationsPerSample ? kOperationsPerSample : 1;
  return {count, stride_bytes / sizeof(float), room / per_sample * per_sample, per_sample};
}

// Small whole numbers, so that every sum is exact.
float value_at(std::size_t position, std::size_t i, int rank) {
  return static_cast<float>(((position + i) & 7) * static_cast<std::size_t>(rank + 1));
}

void fill(const AllReduceRank& rank, const Turn& turn) {
  for (std::size_t p = 0; p < turn.positions; ++p) {
    float* buffer = rank.region + p * turn.stride;
    for (std::size_t i = 0; i < turn.count; ++i) buffer[i] = value_at(p, i, rank.rank);
  }
}

bool is_right(const AllReduceRank& rank, const Turn& turn, const float* sums) {
  const int times = rank.doubles ? 2 * (rank.rank + 1) : rank.world_size * (rank.world_size + 1) / 2;
  for (std::size_t p = 0; p < turn.positions; ++p) {
    const float* buffer = sums + p * turn.stride;
    for (std::size_t i = 0; i < turn.count; ++i) {
      if (buffer[i] != value_at(p, i, 0) * static_cast<float>(times)) return false;
    }
  }
  return true;
}

void evict(std::vector<char>& scratch) {
  if (scratch.empty()) scratch.resize(kEvictedBytes);
  for (std::size_t i = 0; i < scratch.size(); i += 64) ++scratch[i];
}

// Microseconds of one operation: the median over samples of one or several operations.
double measure(const AllReduceRank& rank, const Turn& turn, const AllReduceWay& way) {
  std::vector<double> samples;
  for (std::size_t p = 0; p < turn.positions; p += turn.per_sample) {
    for (std::size_t i = p; rank.touch && i < p + turn.per_sample; ++i) rank.touch(i * turn.stride);
    const auto begin = Clock::now();
    for (std::size_t i = p; i < p + turn.per_sample; ++i) way.run(i * turn.stride, turn.count);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    samples.push_back(took.count() / static_cast<double>(turn.per_sample));
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// A way on each buffer of a turn. All ranks begin together, and none of them has its buffers in its caches.
double measure_cold(const AllReduceRank& rank, const Turn& turn, std::vector<char>& scratch, const AllReduceWay& way) {
  fill(rank, turn);
  evict(scratch);
  for (int i = 0; i < 3; ++i) rank.synchronise();
  return measure(rank, turn, way);
}

// The line that answers a turn.
std::string answer(const AllReduceRank& rank, std::size_t bytes, std::vector<char>& scratch) {
  const Turn turn = plan(bytes, rank.region_bytes);
  if (rank.prepare) rank.prepare(turn.count, turn.stride, turn.positions);
  double best_us = std::numeric_limits<double>::max();
  bool right = true;
  for (const AllReduceWay& way : rank.ways) {
    if (bytes > way.most_bytes) continue;
    best_us = std::min(best_us, measure_cold(rank, turn, scratch, way));
    right = is_right(rank, turn, way.sums) && right;  // after an error too, all ranks measure all ways
  }
  return right ? std::to_string(best_us) : "error: a sum of " + std::to_string(bytes) + " bytes is wrong";
}

}  // namespace

std::size_t region_bytes(std::size_t largest_bytes) {
  const std::size_t stride = (std::max(largest_bytes, kLeastStrideBytes) + 4095) / 4096 * 4096;
  const std::size_t buffers = std::max<std::size_t>(4, (kRotatedBytes + stride - 1) / stride);
  return buffers * stride;
}

void take_turns(const AllReduceRank& rank, const std::string& folder) {
  std::ifstream in(folder + "/in." + std::to_string(rank.rank));
  std::ofstream out(folder + "/out." + std::to_string(rank.rank));
  out << "ready" << std::endl;
  std::vector<char> scratch;
  std::size_t bytes = 0;
  while (in >> bytes) out << answer(rank, bytes, scratch) << std::endl;
}

}  // namespace lockstep::bench
