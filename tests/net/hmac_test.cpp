#include "lockstep/net/hmac.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacTest, GivesThePublishedDigests) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), {"Hi There"})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", {"what do ya want ", "for nothing?"})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'), {"Test Using Larger Than Block-Size Key - Hash Key First"})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, FrameTagsAreThoseOfNumberHeaderAndBody) {
  FrameMac mac("Jefe");
  const std::string first(8, '\0');
  const std::string second("\x01\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(mac.next_tag("head", "body"), hmac_sha256("Jefe", {first, "headbody"}));
  EXPECT_EQ(mac.next_tag("head", "body"), hmac_sha256("Jefe", {second, "headbody"}));
}

TEST(HmacTest, ComparesBytesAndLengths) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
}

TEST(HmacTest, RandomBytesDiffer) {
  EXPECT_EQ(random_bytes(32).size(), 32U);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

}  // namespace
}  // namespace lockstep
