#include "lockstep/data/text/unicode/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::text {
namespace {

struct Case {
  const char* name;
  std::string bytes;
  std::string want;  // as bytes.decode("utf-8", errors="replace").encode() in Python
};

class ReplaceInvalid : public ::testing::TestWithParam<Case> {};

TEST_P(ReplaceInvalid, GivesWhatPythonGives) {
  const Case& c = GetParam();
  EXPECT_EQ(replace_invalid_utf8(c.bytes), c.want);
  EXPECT_EQ(find_invalid_utf8(c.bytes).has_value(), c.bytes != c.want);
  EXPECT_EQ(is_valid_utf8(c.bytes), c.bytes == c.want);
  EXPECT_FALSE(find_invalid_utf8(c.want).has_value());
  // The same part after text that is long enough to be read in words of eight bytes, ASCII and not.
  for (const std::string& before : {std::string(29, 'a'), std::string("Zürich ist schön, "), std::string("日本語")}) {
    EXPECT_EQ(replace_invalid_utf8(before + c.bytes + " b"), before + c.want + " b");
    EXPECT_EQ(find_invalid_utf8(before + c.bytes + " b").has_value(), c.bytes != c.want);
    EXPECT_EQ(is_valid_utf8(before + c.bytes + " b"), c.bytes == c.want);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReplaceInvalid,
    ::testing::Values(Case{"empty", "", ""}, Case{"ascii", "plain", "plain"}, Case{"two_bytes", "\xC3\xA9", "\xC3\xA9"},
                      Case{"four_bytes", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
                      Case{"lone_continuation", "a\x80z", "a\xEF\xBF\xBDz"},
                      Case{"lone_lead", "a\xC3z", "a\xEF\xBF\xBDz"}, Case{"cut_three", "a\xE2\x82z", "a\xEF\xBF\xBDz"},
                      Case{"cut_four", "a\xF0\x9F\x98z", "a\xEF\xBF\xBDz"},
                      Case{"overlong_slash", "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                      Case{"overlong_three", "\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                      Case{"surrogate", "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                      Case{"beyond_unicode", "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                      Case{"never_a_lead", "\xFE\xFF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                      Case{"two_cuts", "\xE2\x82\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"}),
    [](const auto& test) { return test.param.name; });

TEST(Utf8, EndsInTheMiddleOfACharacter) {
  EXPECT_EQ(replace_invalid_utf8("ok \xE2\x82"), "ok \xEF\xBF\xBD");
  EXPECT_EQ(find_invalid_utf8("ok \xE2\x82"), 3U);
}

TEST(Utf8, AllPairsAndTriplesOfBytes) {
  // Every pair, and a third byte from each relevant range; the whole is longer than the steps in which it is read.
  std::string text(40, 'a');
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const int third : {0x41, 0x80, 0x9F, 0xBF, 0xC3, 0xF0}) {
        text[30] = static_cast<char>(first);
        text[31] = static_cast<char>(second);
        text[32] = static_cast<char>(third);
        EXPECT_EQ(is_valid_utf8(text), !find_invalid_utf8(text).has_value()) << first << " " << second << " " << third;
      }
    }
  }
}

TEST(Utf8, DecodesWhatItAppends) {
  for (const char32_t c : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string bytes;
    append_utf8(c, bytes);
    std::size_t at = 0;
    EXPECT_EQ(decode_char(bytes.data(), &at), c);
    EXPECT_EQ(at, bytes.size());
    EXPECT_EQ(count_chars(bytes), 1U);
  }
}

TEST(Utf8, FindsTheFirstByteThatIsNotAscii) {
  for (std::size_t at = 0; at < 40; ++at) {
    std::string text(40, 'a');
    EXPECT_EQ(find_non_ascii(text), text.size());
    text[at] = '\x80';
    for (std::size_t from = 0; from <= at; ++from) EXPECT_EQ(find_non_ascii(text, from), at);
  }
}

}  // namespace
}  // namespace lockstep::text
