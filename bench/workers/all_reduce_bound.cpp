#include "bench/workers/all_reduce_bound.h"

#include "bench/workers/plain_loops.h"

namespace lockstep::bench {
namespace {

constexpr std::size_t kOrderMattersBytes = std::size_t{256} << 10;  // beyond, a barrier takes less than a hundredth

}  // namespace

std::vector<AllReduceWay> bound_ways(float* region, float* spare, BareBarrier& barrier) {
  std::vector<AllReduceWay> ways;
  for (const PlainLoop& loop : plain_loops()) {
    float* const to = loop.in_place ? region : spare;
    if (to == nullptr) continue;
    const auto pass_over = [run = loop.run, region, to](std::size_t offset, std::size_t count) {
      run(region + offset, to + offset, count);
    };
    AllReduceWay data_first;
    data_first.sums = to;
    data_first.run = [pass_over, &barrier](std::size_t offset, std::size_t count) {
      pass_over(offset, count);
      barrier.pass();
    };
    AllReduceWay barrier_first;
    barrier_first.sums = to;
    barrier_first.most_bytes = kOrderMattersBytes;
    barrier_first.run = [pass_over, &barrier](std::size_t offset, std::size_t count) {
      barrier.pass();
      pass_over(offset, count);
    };
    ways.push_back(std::move(data_first));
    ways.push_back(std::move(barrier_first));
  }
  return ways;
}

}  // namespace lockstep::bench
