#include "lockstep/base/random/mix_bits.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/base/random/random_bits.h"
#include "lockstep/base/random/random_stream.h"

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

TEST(MixInto, TellsOrderAndNumberOfValuesApart) {
  const auto digest_of = [](std::initializer_list<std::uint64_t> values) {
    std::uint64_t digest = 0;
    for (const std::uint64_t value : values) mix_into(digest, value);
    return digest;
  };
  const std::set<std::uint64_t> digests{digest_of({}),     digest_of({0}),    digest_of({0, 0}), digest_of({1, 2}),
                                        digest_of({2, 1}), digest_of({1, 1}), digest_of({3}),    digest_of({1, 2, 0})};
  EXPECT_EQ(digests.size(), 8U);
}

// Every length up to some strides, and every bit of each.
TEST(HashBytes, TellsEveryBitAndLengthApart) {
  std::set<std::uint64_t> digests;
  std::size_t count = 0;
  for (std::size_t length = 0; length < 200; ++length) {
    std::vector<unsigned char> bytes(length);
    digests.insert(hash_bytes(bytes.data(), length));
    digests.insert(hash_bytes(bytes.data(), length, 1));
    count += 2;
    for (std::size_t bit = 0; bit < 8 * length; ++bit, ++count) {
      bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      digests.insert(hash_bytes(bytes.data(), length));
      bytes[bit / 8] = 0;
    }
  }
  EXPECT_EQ(digests.size(), count);
}

// Images whose rows are exchanged, as in two lanes of a stride.
TEST(HashBytes, TellsExchangedWordsApart) {
  std::vector<std::uint64_t> words(32);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * i;
  const std::uint64_t before = hash_bytes(words.data(), 8 * words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::swap(words[i], words[j]);
      EXPECT_NE(hash_bytes(words.data(), 8 * words.size()), before) << i << " and " << j;
      std::swap(words[i], words[j]);
    }
  }
}

TEST(RandomBits, AreDrawnAnewEachTime) {
  std::set<std::uint64_t> drawn;
  std::uint64_t all = 0;
  for (int i = 0; i < 100; ++i) all |= *drawn.insert(random_bits()).first;
  EXPECT_EQ(drawn.size(), 100U);
  EXPECT_EQ(~all, 0U) << "some of the 64 bits are never set";
}

}  // namespace
}  // namespace lockstep
