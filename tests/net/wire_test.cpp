#include "lockstep/net/store/wire.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace lockstep {
namespace {

TEST(WireTest, NumbersAreLittleEndianAndTextsCarryTheirLength) {
  WireWriter writer;
  writer.u8(0xfe);
  writer.u32(0x01020304);
  writer.i64(-2);
  writer.text("ab");
  EXPECT_EQ(writer.bytes(), std::string("\xfe\x04\x03\x02\x01\xfe\xff\xff\xff\xff\xff\xff\xff\x02\0\0\0ab", 19));
  WireReader reader(writer.bytes());
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u32(), 0x01020304U);
  EXPECT_EQ(reader.i64(), -2);
  EXPECT_EQ(reader.text(2), "ab");
  reader.end();
}

TEST(WireTest, EveryTruncationIsAnError) {
  WireWriter writer;
  writer.u8(1);
  writer.u64(2);
  writer.text("text");
  const std::string whole = writer.bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    WireReader reader(std::string_view(whole).substr(0, length));
    EXPECT_THROW(
        {
          reader.u8();
          reader.u64();
          reader.text(100);
        },
        WireError)
        << length;
  }
}

TEST(WireTest, LengthsAreCheckedAgainstLimitAndRest) {
  WireWriter writer;
  writer.u32(0xffffffff);
  EXPECT_THROW(WireReader(writer.bytes()).text(0xffffffff), WireError);  // more bytes than there are
  WireWriter text;
  text.text("abc");
  EXPECT_THROW(WireReader(text.bytes()).text(2), WireError);  // more bytes than allowed
}

TEST(WireTest, NothingMayFollowTheLastField) {
  WireReader reader("ab");
  reader.u8();
  EXPECT_THROW(reader.end(), WireError);
}

}  // namespace
}  // namespace lockstep
