#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/launch/process/line_prefix.h"
#include "lockstep/launch/process/text_tail.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(LinePrefix, StandsBeforeEachLine) {
  LinePrefix prefix("[r0]:");
  EXPECT_EQ(prefix.feed("a\nb\n"), "[r0]:a\n[r0]:b\n");
  EXPECT_EQ(prefix.finish(), "");
}

TEST(LinePrefix, WaitsForTheEndOfALine) {
  LinePrefix prefix("> ");
  EXPECT_EQ(prefix.feed("hel"), "");
  EXPECT_EQ(prefix.feed("lo\nwor"), "> hello\n");
  EXPECT_EQ(prefix.finish(), "> wor\n");
  EXPECT_EQ(prefix.finish(), "");
}

TEST(LinePrefix, TakesReturnsOfProgressBars) {
  LinePrefix prefix("> ");
  EXPECT_EQ(prefix.feed("10%\r20%\r"), "> 10%\r> 20%\r");
  EXPECT_EQ(prefix.feed("\n"), "\n") << "the second half of a line end";
  EXPECT_EQ(prefix.feed("x\r\ny\n"), "> x\r\n> y\n");
}

TEST(LinePrefix, BoundsWhatItKeeps) {
  LinePrefix prefix(">");
  EXPECT_GE(prefix.feed(std::string(200 * 1024, 'x')).size(), 128U * 1024);
}

TEST(TextTail, KeepsTheLastLines) {
  TextTail tail;
  tail.feed("one\ntwo\n\nthr");
  tail.feed("ee\r\nfour");
  EXPECT_EQ(tail.last_lines(3), (std::vector<std::string>{"two", "three", "four"}));
  EXPECT_EQ(tail.last_lines(9).size(), 4U);
  EXPECT_TRUE(TextTail().last_lines(3).empty());
}

TEST(TextTail, IsBounded) {
  TextTail tail;
  for (int i = 0; i < 10000; ++i) tail.feed("line " + std::to_string(i) + "\n");
  tail.feed("\n\n");
  EXPECT_LE(tail.text().size(), 16U * 1024);
  EXPECT_EQ(tail.last_lines(1), std::vector<std::string>{"line 9999"});
  tail.feed(std::string(100000, 'x'));
  EXPECT_EQ(tail.text(), std::string(16 * 1024, 'x'));
}

TEST(TextTail, ReadsTheEndOfAFile) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "log");
    for (int i = 0; i < 10000; ++i) file << "line " << i << "\n";
  }
  EXPECT_EQ(tail_of_file(folder / "log").last_lines(2), (std::vector<std::string>{"line 9998", "line 9999"}));
  EXPECT_EQ(tail_of_file(folder / "missing").text(), "");
}

}  // namespace
}  // namespace lockstep
