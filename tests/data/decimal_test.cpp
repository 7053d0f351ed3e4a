#include "lockstep/data/csv/decimal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

namespace lockstep {
namespace {

TEST(Decimal, ReadsNumbersAsStrtodDoes) {
  for (const char* text : {"0",
                           "-0",
                           "+7",
                           "12",
                           "-12.5",
                           "0.1",
                           ".5",
                           "5.",
                           "1e3",
                           "1E-3",
                           "-2.5e+10",
                           "0.000001",
                           "123456789012345",
                           "1234567890123456",
                           "12345678901234567890",
                           "0.1234567890123456789",
                           "999999999999999",
                           "0.00000000000000000000001",
                           "1e-300",
                           "1.7976931348623157e308",
                           "9007199254740993",
                           "00012",
                           "-.25"}) {
    const auto got = parse_decimal(text);
    ASSERT_TRUE(got.has_value()) << text;
    EXPECT_EQ(*got, std::strtod(text, nullptr)) << text;
  }
  EXPECT_TRUE(std::signbit(*parse_decimal("-0")));
}

TEST(Decimal, IsRoundedCorrectlyForAnyDigits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = std::to_string(random() >> (random() % 64));
    text.insert(random() % (text.size() + 1), ".");
    const auto got = parse_decimal(text);
    ASSERT_TRUE(got.has_value()) << text;
    ASSERT_EQ(*got, std::strtod(text.c_str(), nullptr)) << text;
  }
}

TEST(Decimal, IsNothingElse) {
  for (const char* text : {"",     "-",   "+",   ".",    "e5",    "1e",  "1e+", "abc", " 1",    "1 ", "1,5",
                           "0x10", "nan", "inf", "-inf", "1e999", "--1", "+-1", "-+1", "1.2.3", "1-"}) {
    EXPECT_FALSE(parse_decimal(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace lockstep
