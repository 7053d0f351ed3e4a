#include "lockstep/base/mix_bits.h"

#include <gtest/gtest.h>

#include "lockstep/base/random_stream.h"

namespace lockstep {
namespace {

// Numbers published by the generator's authors and others.
TEST(SplitMix64, GivesThePublishedNumbers) {
  std::uint64_t zero = 0;
  EXPECT_EQ(next_split_mix(zero), 0xe220a8397b1dcdafu);
  EXPECT_EQ(next_split_mix(zero), 0x6e789e6aa1b965f4u);
  std::uint64_t state = 1234567;
  RandomStream stream(1234567);
  for (const std::uint64_t want : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u}) {
    EXPECT_EQ(next_split_mix(state), want);
    EXPECT_EQ(stream.next(), want);
  }
}

}  // namespace
}  // namespace lockstep
