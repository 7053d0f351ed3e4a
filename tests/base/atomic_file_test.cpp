#include "lockstep/base/files/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(AtomicFile, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, std::string("a\0b", 3));
  EXPECT_EQ(read_file(path), std::string("a\0b", 3));
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
}

TEST(AtomicFile, LeavesNothingBesideTheFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "x");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, ReplacesWhatALinkLeadsTo) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  std::filesystem::create_symlink("file", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "file"), "new");
}

TEST(AtomicFile, WritesIntoAPipeAndLeavesItThere) {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_file_atomically(path, "through");
  char got[16];
  EXPECT_EQ(::read(reader.get(), got, sizeof(got)), 7);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_THROW(AtomicFile{path}, Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {  // a file size limit makes a write fail as a full disk does, after part of the content
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomically(path, std::string(100000, 'n'));
    } catch (const Error&) {
      ::_exit(7);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, AppearsWholeWhenItIsCommitted) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  {
    AtomicFile file(path);
    file.reserve(1 << 20);  // more than is written: the file's size is that of its content
    file.write("first ");
    EXPECT_FALSE(std::filesystem::exists(path));
    file.write("second");
    file.commit();
  }
  EXPECT_EQ(read_file(path), "first second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, DroppedBeforeCommitLeavesNothing) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "file");
    file.write("part");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AtomicFile, NamesThePathThatCannotBeRead) {
  try {
    read_file("/nonexistent/file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("/nonexistent/file"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
