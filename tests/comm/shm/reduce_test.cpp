// The reduction loops against plain arithmetic, element by element.
#include "lockstep/comm/reduce/reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace lockstep::shm {
namespace {

constexpr Reduction kAll[] = {Reduction::Sum, Reduction::Avg, Reduction::Min, Reduction::Max, Reduction::Product};

// Combined in type A, as documented in the header.
template <class T, class A>
T plain(Reduction reduction, const std::vector<std::vector<T>>& ranks, std::size_t i) {
  A value = static_cast<A>(ranks[0][i]);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const A next = static_cast<A>(ranks[r][i]);
    switch (reduction) {
      case Reduction::Min:
        value = next < value ? next : value;
        break;
      case Reduction::Max:
        value = next > value ? next : value;
        break;
      case Reduction::Product:
        value = static_cast<A>(value * next);
        break;
      default:
        value = static_cast<A>(value + next);
    }
  }
  if (reduction == Reduction::Avg) value = static_cast<A>(value / static_cast<A>(ranks.size()));
  return static_cast<T>(value);
}

template <class T, class A>
void check(Element element, bool floating) {
  std::mt19937 random(7);
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {0UL, 1UL, 7UL, 64UL, 257UL, 1000UL}) {
      for (const Reduction reduction : kAll) {
        if (reduction == Reduction::Avg && !floating) continue;
        std::vector<std::vector<T>> data(static_cast<std::size_t>(ranks), std::vector<T>(count));
        for (auto& rank : data) {
          for (T& value : rank) value = static_cast<T>(static_cast<int>(random() % 9) + 1);
        }
        std::vector<T> want(count);
        for (std::size_t i = 0; i < count; ++i) want[i] = plain<T, A>(reduction, data, i);
        std::vector<std::byte*> pointers;
        for (auto& rank : data) pointers.push_back(reinterpret_cast<std::byte*>(rank.data()));
        reduce(element, reduction, pointers.data(), ranks, pointers.data(), ranks, count);
        for (const auto& rank : data) {
          ASSERT_EQ(count == 0 ? 0 : std::memcmp(rank.data(), want.data(), count * sizeof(T)), 0)
              << ranks << " ranks, " << count << " elements, reduction " << static_cast<int>(reduction);
        }
      }
    }
  }
}

TEST(Reduce, Float) { check<float, float>(Element::F32, true); }
TEST(Reduce, Double) { check<double, double>(Element::F64, true); }
TEST(Reduce, HalfInFloat) { check<c10::Half, float>(Element::F16, true); }
TEST(Reduce, BFloat16InFloat) { check<c10::BFloat16, float>(Element::BF16, true); }
TEST(Reduce, Int32) { check<std::int32_t, std::int32_t>(Element::I32, false); }
TEST(Reduce, Int64) { check<std::int64_t, std::int64_t>(Element::I64, false); }
TEST(Reduce, UInt8Wraps) { check<std::uint8_t, std::uint8_t>(Element::U8, false); }

TEST(Reduce, NanFromAnyRankStays) {
  for (const Reduction reduction : {Reduction::Min, Reduction::Max}) {
    for (int who = 0; who < 3; ++who) {
      std::vector<std::vector<float>> data(3, std::vector<float>(5, 1.0F));
      data[static_cast<std::size_t>(who)][2] = std::numeric_limits<float>::quiet_NaN();
      std::vector<std::byte*> pointers;
      for (auto& rank : data) pointers.push_back(reinterpret_cast<std::byte*>(rank.data()));
      reduce(Element::F32, reduction, pointers.data(), 3, pointers.data(), 3, 5);
      EXPECT_TRUE(std::isnan(data[0][2])) << "rank " << who;
      EXPECT_EQ(data[0][1], 1.0F);
    }
  }
}

// One source: read, converted to fp32, rounded back.
TEST(Reduce, EveryHalfSurvivesTheWayThroughFloat) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<std::uint16_t> before = all;
  auto* pointer = reinterpret_cast<std::byte*>(all.data());
  reduce(Element::F16, Reduction::Sum, &pointer, 1, &pointer, 1, all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool nan = (before[i] & 0x7c00) == 0x7c00 && (before[i] & 0x3ff) != 0;
    ASSERT_EQ(all[i], nan ? before[i] | 0x200 : before[i]) << i;
  }
}

}  // namespace
}  // namespace lockstep::shm
