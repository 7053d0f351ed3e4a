#include "lockstep/parallel/reducer/bucket_layout.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr auto kFloat = c10::ScalarType::Float;
constexpr auto kDouble = c10::ScalarType::Double;

struct Case {
  const char* name;
  std::vector<GradientSize> gradients;
  std::int64_t first_cap_bytes;
  std::int64_t cap_bytes;
  std::vector<std::vector<std::size_t>> want;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class MakeBuckets : public ::testing::TestWithParam<Case> {};

TEST_P(MakeBuckets, FillsFromTheLastParameter) {
  const Case& c = GetParam();
  std::vector<std::vector<std::size_t>> got;
  for (const BucketLayout& bucket : make_buckets(c.gradients, {c.first_cap_bytes, c.cap_bytes}))
    got.push_back(bucket.params);
  EXPECT_EQ(got, c.want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, MakeBuckets,
    ::testing::Values(
        Case{"no_parameters", {}, 10, 10, {}},
        Case{"exactly_full", {{4, kFloat}, {6, kFloat}, {5, kFloat}, {5, kFloat}}, 10, 10, {{3, 2}, {1, 0}}},
        Case{"bigger_than_cap", {{4, kFloat}, {99, kFloat}, {4, kFloat}}, 10, 10, {{2}, {1}, {0}}},
        Case{"first_is_smaller", {{4, kFloat}, {4, kFloat}, {4, kFloat}, {4, kFloat}}, 4, 12, {{3}, {2, 1, 0}}},
        // The bucket of doubles fills up first, although a float came before it.
        Case{"dtypes_apart", {{8, kDouble}, {8, kDouble}, {4, kFloat}}, 8, 8, {{1}, {2}, {0}}},
        Case{"empty_gradients", {{0, kFloat}, {0, kFloat}}, 10, 10, {{1, 0}}}),
    [](const auto& test) { return test.param.name; });

TEST(MakeBucketsErrors, RefusesCapsThatAreNotPositive) {
  EXPECT_THROW(make_buckets({}, {0, 10}), Error);
  EXPECT_THROW(make_buckets({}, {10, -1}), Error);
}

}  // namespace
}  // namespace lockstep
