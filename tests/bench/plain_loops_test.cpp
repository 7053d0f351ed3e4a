// The loops of the all-reduce's bound do what they are timed for: each float once, and nothing beside them.
#include "bench/workers/plain_loops.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::bench {
namespace {

constexpr float kUntouched = -7.0F;
constexpr std::size_t kMost = 1000;

struct alignas(64) AlignedFloats {
  float at[kMost + 16];
};

void expect_doubles(const PlainLoop& loop, std::size_t count) {
  AlignedFloats from, to;
  for (std::size_t i = 0; i < kMost + 16; ++i) {
    from.at[i] = static_cast<float>(i) + 0.5F;
    to.at[i] = kUntouched;
  }
  float* const target = loop.in_place ? from.at : to.at;
  loop.run(from.at, target, count);
  for (std::size_t i = 0; i < kMost + 16; ++i) {
    const float own = static_cast<float>(i) + 0.5F;
    const float beyond = loop.in_place ? own : kUntouched;
    ASSERT_EQ(target[i], i < count ? own + own : beyond) << loop.name << ", " << count << " floats, at " << i;
    if (loop.in_place) continue;
    ASSERT_EQ(from.at[i], own) << loop.name << ", " << count << " floats, at " << i;
  }
}

void expect_all_double(const std::vector<PlainLoop>& loops) {
  for (const PlainLoop& loop : loops) {
    for (const std::size_t count : {0, 1, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 1000}) expect_doubles(loop, count);
  }
}

TEST(PlainLoops, OfAnyProcessorDoubleEachFloatOnce) { expect_all_double(baseline_loops()); }

TEST(PlainLoops, OfAvx512DoubleEachFloatOnce) {
  if (avx512_loops().empty()) GTEST_SKIP() << "this processor has no AVX-512";
  expect_all_double(avx512_loops());
}

TEST(PlainLoops, WorkInPlaceAndApartWithTheWidestVectors) {
  const std::size_t wide = avx512_loops().size();
  EXPECT_EQ(plain_loops().size(), wide == 0 ? baseline_loops().size() : wide);
  std::size_t in_place = 0;
  for (const PlainLoop& loop : plain_loops()) in_place += loop.in_place ? 1 : 0;
  EXPECT_GE(in_place, 6U);
  EXPECT_GE(plain_loops().size() - in_place, 2U);
}

}  // namespace
}  // namespace lockstep::bench
