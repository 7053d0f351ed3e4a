// Tests a disk that is really full: a small file system of the kernel, and its limit on the size of a file.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr int kCannotMount = 77;

// The exit code of `body`, run in a child process; 1 if an expectation failed in it.
int exit_code_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      code = body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    ::_exit(code != 0 ? code : ::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Saves repeatedly; returns the first error, or an empty text if no save fails.
std::string save_until_it_fails(const std::string& folder, FileSystem& files) {
  CheckpointWriterOptions options;
  options.output_dir = folder;
  options.file_system = &files;
  options.background = false;
  CheckpointWriter writer(options);
  for (std::int64_t step = 1; step <= 100; ++step) {
    try {
      writer.save(sample_content(step));
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

// Mounts a file system of 400 kB at `folder`, visible only to this process. False if that is not permitted.
bool mount_small_disk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=400k") == 0;
}

// Does not know how much space is left, so it reaches the end of the disk while writing.
class BlindFileSystem : public FileSystem {
  std::int64_t free_bytes(const std::string&) override { return -1; }
};

int fill_disk(const std::string& folder, FileSystem& files, const char* says) {
  if (!mount_small_disk(folder)) return kCannotMount;
  { std::ofstream(folder + "/ballast") << std::string(150'000, 'x'); }
  const std::string error = save_until_it_fails(folder, files);
  EXPECT_NE(error.find(says), std::string::npos) << error;
  EXPECT_TRUE(hidden_names_in(folder).empty());
  const CheckpointSearch search = find_newest_checkpoint(folder);
  if (!search.newest) return 2;
  EXPECT_GE(search.newest->step(), 2);
  EXPECT_TRUE(search.damaged.empty()) << search.notice();
  expect_sample(*search.newest, search.newest->step());
  std::filesystem::remove(folder + "/ballast");
  CheckpointWriterOptions options;
  options.output_dir = folder;
  CheckpointWriter writer(options);
  writer.save(sample_content(200));
  writer.wait();
  expect_sample(find_newest_checkpoint(folder).newest.value(), 200);
  return 0;
}

TEST(FullDisk, IsSeenBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const int code = exit_code_of([&] { return fill_disk(folder.path(), real_file_system(), "the file system has "); });
  if (code == kCannotMount) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(code, 0);
}

TEST(FullDisk, LosesNothingWhenItIsMetWhileWriting) {
  const TemporaryFolder folder;
  BlindFileSystem files;
  const int code = exit_code_of([&] { return fill_disk(folder.path(), files, "No space left on device"); });
  if (code == kCannotMount) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(code, 0);
}

TEST(FullDisk, LosesNothingWhenFilesMayNotGrow) {
  const TemporaryFolder folder;
  const int code = exit_code_of([&] {
    CheckpointWriterOptions options;
    options.output_dir = folder.path();
    CheckpointWriter writer(options);
    writer.save(sample_content(1));
    writer.wait();
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    writer.save(sample_content(2));
    try {
      writer.wait();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("File too large"), std::string::npos) << error.what();
    }
    expect_sample(find_newest_checkpoint(folder.path()).newest.value(), 1);
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &none);
    writer.save(sample_content(3));
    writer.wait();
    expect_sample(find_newest_checkpoint(folder.path()).newest.value(), 3);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(hidden_names_in(folder.path()).empty());
}

// As under ulimit -n 24.
class NoDescriptorLeft : public FileSystem {
 public:
  int create(const std::string&, mode_t) override {
    errno = EMFILE;
    return -1;
  }
};

TEST(LimitOfOpenFiles, IsNamedInTheFixAndNotThePermissions) {
  const TemporaryFolder folder;
  NoDescriptorLeft files;
  const std::string error = save_until_it_fails(folder.path(), files);
  EXPECT_NE(error.find("Too many open files"), std::string::npos) << error;
  EXPECT_NE(error.find("fix: raise the limit of open files (ulimit -n)"), std::string::npos) << error;
}

}  // namespace
}  // namespace lockstep
