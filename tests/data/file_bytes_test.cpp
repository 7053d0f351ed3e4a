#include "lockstep/data/files/file_bytes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/files/gzip.h"
#include "lockstep/data/files/inflate_limit.h"
#include "lockstep/data/files/zstd.h"
#include "tests/data/gzip_file.h"
#include "tests/data/zstd_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::string bytes_of(const TemporaryFolder& folder, const std::string& content) {
  write_file_atomically(folder / "file", content);
  return std::string(FileBytes::open(folder / "file").view());
}

TEST(FileBytes, TellsPlainFromGzipByTheContent) {
  const TemporaryFolder folder;
  const std::string long_text(300000, 'x');
  for (const std::string& text : {std::string(), std::string("short"), std::string("a\0b\n", 4), long_text}) {
    EXPECT_EQ(bytes_of(folder, text), text);
    EXPECT_EQ(bytes_of(folder, gzip_bytes(text)), text);
  }
}

TEST(FileBytes, GzipMembersAreOneContent) {
  const TemporaryFolder folder;
  EXPECT_EQ(bytes_of(folder, gzip_bytes("one ") + gzip_bytes("") + gzip_bytes("two")), "one two");
}

TEST(FileBytes, AMoveKeepsTheView) {
  const TemporaryFolder folder;
  for (const std::string& content : {std::string("plain"), gzip_bytes("short"), gzip_bytes(std::string(99, 'y'))}) {
    write_file_atomically(folder / "file", content);
    FileBytes first = FileBytes::open(folder / "file");
    const std::string before(first.view());
    FileBytes second = std::move(first);
    EXPECT_EQ(second.view(), before);
    FileBytes third = FileBytes::open(folder / "file");
    third = std::move(second);
    EXPECT_EQ(third.view(), before);
  }
}

TEST(FileBytes, DamageIsAnError) {
  const TemporaryFolder folder;
  const std::string good = gzip_bytes("some text that is long enough to be compressed, compressed, compressed");
  for (std::size_t size = 2; size < good.size(); ++size) {
    expect_error("ends in the middle", [&] { bytes_of(folder, good.substr(0, size)); });
  }
  std::string flipped = good;
  flipped[good.size() - 6] = static_cast<char>(flipped[good.size() - 6] ^ 1);  // in the checksum
  expect_error("the gzip file is damaged", [&] { bytes_of(folder, flipped); });
  expect_error("3 bytes that are not gzip follow", [&] { bytes_of(folder, good + "abc"); });
  expect_error("more than 10 bytes", [&] { gunzip(gzip_bytes(std::string(11, 'z')), "file", 10); });
}

// Holes use no disk space.
void write_sparse(const std::string& path, std::size_t bytes) {
  write_file_atomically(path, "begin");
  std::filesystem::resize_file(path, bytes);
}

TEST(FileBytes, InflatesZstdFrameByFrame) {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("short"), std::string(300000, 'x')}) {
    EXPECT_EQ(bytes_of(folder, zstd_bytes(text)), text);
    EXPECT_EQ(bytes_of(folder, zstd_bytes("one ") + zstd_bytes(text) + zstd_bytes(" two")), "one " + text + " two");
  }
  const std::string good = zstd_bytes("some text that is long enough to be compressed, compressed, compressed");
  for (std::size_t size = 4; size < good.size(); ++size) {
    expect_error("the zstd file ends in the middle", [&] { bytes_of(folder, good.substr(0, size)); });
  }
  expect_error("the zstd file is damaged", [&] { bytes_of(folder, good + "abcdefgh"); });
  expect_error("more than 10 bytes", [&] { unzstd(zstd_bytes(std::string(11, 'z')), "file", 10); });
  EXPECT_EQ(unzstd(zstd_bytes(std::string(11, 'z')), "file", 11), std::string(11, 'z'));
}

TEST(FileBytes, AFileThatIsCutWhileItIsInUseIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_sparse(path, FileBytes::kMappedFromBytes - 1);
  const FileBytes small = FileBytes::open_raw(path);
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(small.view().size(), FileBytes::kMappedFromBytes - 1);
  EXPECT_EQ(small.view().back(), '\0') << "it was read whole";

  write_sparse(path, FileBytes::kMappedFromBytes + 5);
  FileBytes large = FileBytes::open_raw(path);
  EXPECT_EQ(large.view().substr(0, 5), "begin");
  std::filesystem::resize_file(path, FileBytes::kMappedFromBytes + 100);
  EXPECT_EQ(large.view().size(), FileBytes::kMappedFromBytes + 5) << "what is appended is no harm";
  std::filesystem::resize_file(path, 10);
  expect_error("truncated from 16777221 to 10 bytes", [&] { large.view(); });
  const FileBytes moved = std::move(large);
  expect_error("rename it over the old one", [&] { moved.view(); });
}

TEST(FileBytes, AFileThatIsCutInTheMiddleOfAReadIsAnErrorToo) {
  const TemporaryFolder folder;
  write_sparse(folder / "file", FileBytes::kMappedFromBytes);
  const FileBytes large = FileBytes::open_raw(folder / "file");
  const std::string_view view = large.view();
  std::filesystem::resize_file(folder / "file", 10);
  EXPECT_EQ(std::count(view.begin(), view.end(), '\0'), static_cast<std::ptrdiff_t>(view.size()) - 5);
  expect_error("truncated from 16777216 to 10 bytes", [&] { large.require_whole(); });
}

TEST(FileBytes, AFileThatIsReplacedMeanwhileIsReadAsItWas) {
  const TemporaryFolder folder;
  write_sparse(folder / "file", FileBytes::kMappedFromBytes);
  const FileBytes large = FileBytes::open_raw(folder / "file");
  write_file_atomically(folder / "file", "another");
  EXPECT_EQ(large.view().substr(0, 5), "begin");
}

TEST(FileBytes, AGzipFileInflatesWithinALimitThatCanBeRaised) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "bomb.csv.gz", gzip_bytes(std::string((64 << 20) + 1, '\0')));
  const auto open = [&] { FileBytes::open(folder / "bomb.csv.gz"); };
  expect_error("contains more than 67108864 bytes", open);
  expect_error("LOCKSTEP_INFLATE_LIMIT_MB", open);
  ::setenv("LOCKSTEP_INFLATE_LIMIT_MB", "65", 1);
  EXPECT_NO_THROW(open());
  ::setenv("LOCKSTEP_INFLATE_LIMIT_MB", "0", 1);
  expect_error("LOCKSTEP_INFLATE_LIMIT_MB is 0", open);
  ::unsetenv("LOCKSTEP_INFLATE_LIMIT_MB");
  EXPECT_EQ(most_inflated_bytes(1 << 20), std::size_t{100} << 20);
  EXPECT_EQ(most_inflated_bytes(std::size_t{1} << 30), std::size_t{4} << 30);
}

TEST(FileBytes, WhatIsNoFileIsAnError) {
  const TemporaryFolder folder;
  expect_error("No such file", [&] { FileBytes::open(folder / "absent"); });
  expect_error("it is a folder", [&] { FileBytes::open(folder.path()); });
  expect_error("it is not a plain file", [&] { FileBytes::open("/dev/null"); });
  // No process will ever write to it.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error("it is not a plain file", [&] { FileBytes::open(folder / "pipe"); });
}

}  // namespace
}  // namespace lockstep
