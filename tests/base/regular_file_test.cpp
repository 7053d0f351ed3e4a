#include "lockstep/base/files/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class RegularFile : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  static void expect_refused(const std::string& path, const std::string& why) {
    try {
      read_regular_file(path, 10);
      ADD_FAILURE() << path << " was read";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find(why), std::string::npos) << error.what();
      EXPECT_NE(error.happened().find(path), std::string::npos) << error.what();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(RegularFile, IsReadAsItIs) {
  const std::string content("a\0\n\xff", 4);
  EXPECT_EQ(read_regular_file(put("a", content), 4), content);
  EXPECT_EQ(read_regular_file(put("empty", ""), 0), "");
  std::filesystem::create_symlink(folder_ / "a", folder_ / "link");
  EXPECT_EQ(read_regular_file(folder_ / "link", 10), content);
}

// No process will ever write to the pipe, and the device never ends.
TEST_F(RegularFile, IsNoPipeNoDeviceAndNoFolder) {
  ASSERT_EQ(::mkfifo(std::string(folder_ / "pipe").c_str(), 0600), 0);
  expect_refused(folder_ / "pipe", "is no regular file");
  expect_refused("/dev/zero", "is no regular file");
  expect_refused(folder_.path(), "is a folder");
  expect_refused(folder_ / "none", "No such file");
}

TEST_F(RegularFile, HasABoundedSize) {
  EXPECT_EQ(read_regular_file(put("ten", "0123456789"), 10).size(), 10U);
  expect_refused(put("eleven", "0123456789a"), "the most is 10");
  std::filesystem::resize_file(put("holes", ""), std::uintmax_t{3} << 30);
  expect_refused(folder_ / "holes", "the most is 10");
}

}  // namespace
}  // namespace lockstep
