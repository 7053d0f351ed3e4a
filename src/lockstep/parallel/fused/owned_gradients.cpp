#include "lockstep/parallel/fused/owned_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlocksPerThread = 4;  // below it, waking a thread costs more than it saves

// Returns `value(part, begin, end)` for each block of kSumBlock elements, in order.
template <typename T, typename Value>
std::vector<T> by_block(const std::vector<OwnedGradients>& parts, const Value& value) {
  struct Block {
    const OwnedGradients* part;
    std::size_t begin;
  };
  std::vector<Block> blocks;
  for (const OwnedGradients& part : parts) {
    for (std::size_t begin = part.begin; begin < part.end; begin += kSumBlock) blocks.push_back({&part, begin});
  }
  std::vector<T> values(blocks.size());
  parallel_over(static_cast<std::int64_t>(blocks.size()), kBlocksPerThread, [&](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const auto [part, begin] = blocks[i];
      values[i] = value(part->source, begin, std::min(begin + kSumBlock, part->end));
    }
  });
  return values;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

double sum_of_squares(const std::vector<OwnedGradients>& parts) {
  return sum_of(by_block<double>(parts, [](const GradientSource& source, std::size_t begin, std::size_t end) {
    return sum_of_squares(source, begin, end);
  }));
}

double max_abs(const std::vector<OwnedGradients>& parts) {
  const auto values = by_block<double>(parts, [](const GradientSource& source, std::size_t begin, std::size_t end) {
    return max_abs(source, begin, end);
  });
  double largest = 0;
  for (const double value : values) {
    if (std::isnan(value) || value > largest) largest = value;
  }
  return largest;
}

double min_abs(const std::vector<OwnedGradients>& parts) {
  const auto values = by_block<double>(parts, [](const GradientSource& source, std::size_t begin, std::size_t end) {
    return min_abs(source, begin, end);
  });
  double smallest = std::numeric_limits<double>::infinity();
  for (const double value : values) {
    if (std::isnan(value) || value < smallest) smallest = value;
  }
  return smallest;
}

double sum_of_powers(const std::vector<OwnedGradients>& parts, double p) {
  return sum_of(by_block<double>(parts, [p](const GradientSource& source, std::size_t begin, std::size_t end) {
    return sum_of_powers(source, p, begin, end);
  }));
}

bool all_finite(const std::vector<OwnedGradients>& parts) {
  const auto finite = by_block<char>(parts, [](const GradientSource& source, std::size_t begin, std::size_t end) {
    return static_cast<char>(all_finite(source, begin, end) ? 1 : 0);
  });
  return std::find(finite.begin(), finite.end(), 0) == finite.end();
}

}  // namespace lockstep
