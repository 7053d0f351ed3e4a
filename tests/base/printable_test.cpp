#include "lockstep/base/text/printable.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct PrintableCase {
  const char* name;
  std::string text;
  std::string want;
  friend std::ostream& operator<<(std::ostream& out, const PrintableCase& c) { return out << c.name; }
};
class Printable : public ::testing::TestWithParam<PrintableCase> {};

TEST_P(Printable, IsOneHarmlessLine) { EXPECT_EQ(printable(GetParam().text), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(Table, Printable,
                         ::testing::Values(PrintableCase{"plain", "label 7\\n", "label 7\\n"},
                                           PrintableCase{"empty", "", ""},
                                           PrintableCase{"escape", "a\x1b]0;title\x07", "a\\x1b]0;title\\x07"},
                                           PrintableCase{"lines", "b\n2\tfake\r", "b\\n2\\tfake\\r"},
                                           PrintableCase{"zero", std::string("a\0b", 3), "a\\x00b"},
                                           PrintableCase{"utf8", "Zürich 日本 🎉", "Zürich 日本 🎉"},
                                           PrintableCase{"c1_control",
                                                         "\xc2\x9b"
                                                         "31m",
                                                         "\\u009b31m"},
                                           PrintableCase{"direction",
                                                         "a\xe2\x80\xae"
                                                         "b",
                                                         "a\\u202eb"},
                                           PrintableCase{"stray_byte",
                                                         "a\x9b"
                                                         "b\xff",
                                                         "a\\x9bb\\xff"},
                                           PrintableCase{"overlong", "\xc0\x9b", "\\xc0\\x9b"},
                                           PrintableCase{"cut_short", "\xe6\x97", "\\xe6\\x97"},
                                           PrintableCase{"surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80"}),
                         [](const auto& test) { return test.param.name; });

TEST(PrintableText, IsBounded) {
  EXPECT_EQ(printable(std::string(1 << 20, 'A')), std::string(200, 'A') + "... (1048576 bytes in all)");
  EXPECT_EQ(printable("日本語", 3), "日本語");
  EXPECT_EQ(printable("日本語", 2), "日本... (9 bytes in all)");
}

}  // namespace
}  // namespace lockstep
