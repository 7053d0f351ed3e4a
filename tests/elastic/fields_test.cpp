#include "lockstep/elastic/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

enum class Colour : std::uint8_t { Red, Blue };

struct Inner {
  std::string name;
  std::optional<double> value;
};
template <typename Fields>
void list_fields(Fields& fields, Inner& inner) {
  auto& [name, value] = inner;
  fields(name, value);
}

struct Everything {
  int small = 0;
  std::int64_t large = 0;
  double number = 0;
  bool flag = false;
  Colour colour = Colour::Red;
  std::string text;
  std::vector<Inner> list;
  std::map<std::string, double> map;
};
template <typename Fields>
void list_fields(Fields& fields, Everything& all) {
  auto& [small, large, number, flag, colour, text, list, map] = all;
  fields(small, large, number, flag, colour, text, list, map);
}

Everything an_example() {
  Everything all;
  all.small = -3;
  all.large = std::numeric_limits<std::int64_t>::min();
  all.number = std::nan("7");
  all.flag = true;
  all.colour = Colour::Blue;
  all.text = std::string("a\n\0b", 4);
  all.list = {{"first", 1.0 / 3}, {"", std::nullopt}};
  all.map = {{"x", -0.0}, {"y", std::numeric_limits<double>::infinity()}};
  return all;
}

std::string bytes_of_example() {
  Everything all = an_example();
  FieldWriter writer;
  writer(all);
  return writer.bytes();
}

TEST(Fields, AreReadAsTheyWereWritten) {
  Everything all;
  all.list.resize(5);
  all.map["old"] = 1;
  const std::string bytes = bytes_of_example();
  FieldReader reader(bytes, "a message");
  EXPECT_FALSE(reader.is_at_end());
  reader(all);
  reader.end();
  EXPECT_TRUE(reader.is_at_end());
  EXPECT_EQ(all.small, -3);
  EXPECT_EQ(all.large, std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(std::isnan(all.number));
  EXPECT_TRUE(all.flag);
  EXPECT_EQ(all.colour, Colour::Blue);
  EXPECT_EQ(all.text, an_example().text);
  ASSERT_EQ(all.list.size(), 2U);
  EXPECT_EQ(all.list[0].name, "first");
  EXPECT_EQ(all.list[0].value, 1.0 / 3);
  EXPECT_EQ(all.list[1].value, std::nullopt);
  EXPECT_EQ(all.map, an_example().map);
  FieldWriter again;
  again(all);
  EXPECT_EQ(again.bytes(), bytes) << "all bits";
}

TEST(Fields, WhereverTheBytesEndTheReaderSaysSo) {
  const std::string bytes = bytes_of_example();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Everything all;
    FieldReader reader(std::string_view(bytes).substr(0, size), "a message");
    try {
      reader(all);
      ADD_FAILURE() << size << " bytes were enough";
    } catch (const Error& error) {
      EXPECT_EQ(error.happened(), "a message ends early");
    }
  }
}

TEST(Fields, BytesBehindTheEndAreRefused) {
  const std::string bytes = bytes_of_example() + "x";
  Everything all;
  FieldReader reader(bytes, "a message");
  reader(all);
  EXPECT_THROW(reader.end(), Error);
}

// A count of 2^64 - 1 elements is refused before there is memory for them.
TEST(Fields, ACountThatNoBytesFollowIsRefused) {
  const std::string bytes(8, '\xff');
  std::vector<double> numbers;
  FieldReader reader(bytes, "a message");
  EXPECT_THROW(reader(numbers), Error);
}

}  // namespace
}  // namespace lockstep
