#include "lockstep/base/files/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class RegularFile : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  static void expect_refused(const std::string& path, const std::string& why,
                             std::string (*read)(const std::string&, std::uint64_t) = read_regular_file) {
    try {
      read(path, 10);
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
  expect_refused(folder_ / "pipe", "is not a regular file");
  expect_refused("/dev/zero", "is not a regular file");
  expect_refused(folder_.path(), "is a folder");
  expect_refused(folder_ / "none", "No such file");
}

// As `/dev/stdin` is, and what a shell makes of `<(COMMAND)`.
TEST_F(RegularFile, OrPipeIsReadUntilItsWriterIsDone) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const std::string content(std::size_t{1} << 20, 'x');  // more than a pipe holds
  std::thread writer([&] {
    for (std::size_t at = 0; at < content.size();) {
      at += static_cast<std::size_t>(::write(in.get(), content.data() + at, content.size() - at));
    }
    in.reset();
  });
  const std::string path = "/proc/self/fd/" + std::to_string(out.get());
  EXPECT_EQ(read_file_or_pipe(path, content.size()), content);
  writer.join();
  expect_refused(path, "is empty and has no writer", read_file_or_pipe);
  EXPECT_EQ(read_file_or_pipe(put("file", "abc"), 3), "abc");
}

TEST_F(RegularFile, OrPipeHasABoundedSizeAndAnEnd) {
  ASSERT_EQ(::mkfifo(std::string(folder_ / "pipe").c_str(), 0600), 0);
  expect_refused(folder_ / "pipe", "is empty and has no writer", read_file_or_pipe);
  const UniqueFd writer(::open(std::string(folder_ / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(writer.get(), "0123456789a", 11), 11);
  expect_refused(folder_ / "pipe", "at most 10 are allowed", read_file_or_pipe);
  expect_refused("/dev/zero", "is not a regular file", read_file_or_pipe);
}

TEST_F(RegularFile, HasABoundedSize) {
  EXPECT_EQ(read_regular_file(put("ten", "0123456789"), 10).size(), 10U);
  expect_refused(put("eleven", "0123456789a"), "at most 10 are allowed");
  std::filesystem::resize_file(put("holes", ""), std::uintmax_t{3} << 30);
  expect_refused(folder_ / "holes", "at most 10 are allowed");
}

}  // namespace
}  // namespace lockstep
