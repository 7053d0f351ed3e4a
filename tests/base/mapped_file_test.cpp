#include "lockstep/base/files/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::size_t kPages = 64;
const std::size_t kPageBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

class MappedFiles : public ::testing::Test {
 protected:
  std::unique_ptr<MappedFile> map(const std::string& name, MappedFile::Access access = MappedFile::Access::ReadOnly) {
    write_file_atomically(folder_ / name, std::string(kPages * kPageBytes, 'x'));
    UniqueFd fd(::open((folder_ / name).c_str(), O_RDONLY));
    return std::make_unique<MappedFile>(std::move(fd), kPages * kPageBytes, access, folder_ / name);
  }
  void cut(const std::string& name, std::size_t bytes) const { std::filesystem::resize_file(folder_ / name, bytes); }

  const TemporaryFolder folder_;
};

TEST_F(MappedFiles, ReadZerosWhereTheFileWasCutAndSaySo) {
  const auto map = this->map("a");
  EXPECT_EQ(map->data()[kPageBytes * 3], 'x');
  map->require_whole();
  cut("a", kPageBytes + 5);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(map->data()[kPageBytes + 4], 'x');
  EXPECT_EQ(map->data()[kPageBytes + 5], '\0');
  EXPECT_EQ(map->data()[kPageBytes * 2], '\0');
  EXPECT_EQ(map->data()[kPages * kPageBytes - 1], '\0');
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("/a: a part of the file cannot be read"), std::string::npos);
  expect_error("the file was truncated from " + std::to_string(kPages * kPageBytes) + " to ",
               [&] { map->require_whole(); });
  std::filesystem::resize_file(folder_ / "a", kPages * kPageBytes);
  expect_error("it was truncated for a while", [&] { map->require_whole(); });
}

TEST_F(MappedFiles, AreAllAskedByOneWhoDoesNotKnowWhichItHasRead) {
  const auto first = map("first");
  {
    const auto closed = map("closed");
    cut("closed", 0);
  }
  MappedFile::require_all_whole();
  const auto second = map("second");
  cut("second", kPages * kPageBytes - 1);  // the rest of its page reads as zeros without a bus error
  expect_error("/second", [] { MappedFile::require_all_whole(); });
}

TEST_F(MappedFiles, ThatAreWholeStayWholeBesideOthers) {
  const auto first = map("first", MappedFile::Access::CopyOnWrite);
  const auto second = map("second", MappedFile::Access::CopyOnWrite);
  cut("first", 0);
  first->data()[kPageBytes * 7] = 'z';
  EXPECT_EQ(first->data()[kPageBytes * 7], 'z');
  EXPECT_EQ(second->data()[kPageBytes * 7], 'x');
  second->require_whole();
  expect_error("/first", [&] { first->require_whole(); });
}

TEST_F(MappedFiles, ManyAtOnceAreCutWhileManyThreadsRead) {
  std::vector<std::unique_ptr<MappedFile>> maps;
  for (int i = 0; i < 20; ++i) maps.push_back(map(std::to_string(i)));
  for (int i = 0; i < 20; i += 2) cut(std::to_string(i), kPageBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t page = 0; page < kPages; ++page) {
        for (std::size_t i = 0; i < maps.size(); ++i) {
          const bool is_there = i % 2 == 1 || page == 0;
          EXPECT_EQ(maps[i]->data()[page * kPageBytes], is_there ? 'x' : '\0') << i << ", page " << page;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  maps.clear();
  const auto again = map("again");  // in a place that one of them had
  EXPECT_EQ(again->data()[kPageBytes], 'x');
  again->require_whole();
}

// Memory of the program's own over a file that is shorter than it.
void read_beyond_the_end(const std::string& path) {
  write_file_atomically(path, "short");
  const int fd = ::open(path.c_str(), O_RDONLY);
  const void* data = ::mmap(nullptr, 2 * kPageBytes, PROT_READ, MAP_PRIVATE, fd, 0);
  static_cast<void>(*(static_cast<const volatile char*>(data) + kPageBytes));
}

using MappedFilesDeathTest = MappedFiles;

TEST_F(MappedFilesDeathTest, LeaveOtherBusErrorsAsTheyWere) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer has a handler of its own";
  EXPECT_EXIT(
      {
        const auto map = this->map("a");
        read_beyond_the_end(folder_ / "other");
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, [](int) { ::_exit(7); });
        const auto map = this->map("a");
        read_beyond_the_end(folder_ / "other");
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        const auto map = this->map("a");
        ::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace lockstep
