// Tests that only one training at a time writes into a folder. Holders are real processes, because a lock must not
// outlive its holder.
#include "lockstep/train/folder/output_folder_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/train/folder/training_folder.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// A process that holds a folder until `let_go`, or until it is killed.
class LockHolder {
 public:
  explicit LockHolder(const std::string& folder) {
    int ready[2], go[2];
    if (::pipe2(ready, O_CLOEXEC) != 0 || ::pipe2(go, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(go[1]);
      char letter = 0;
      const auto lock = OutputFolderLock::take(folder);
      if (::write(ready[1], &letter, 1) != 1) ::_exit(1);
      if (::read(go[0], &letter, 1) < 0) ::_exit(1);
      ::_exit(0);  // as in a crash, without cleanup
    }
    ::close(ready[1]);
    ::close(go[0]);
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1);
    ::close(ready[0]);
    go_ = go[1];
  }
  ~LockHolder() { end(SIGKILL); }
  pid_t pid() const { return pid_; }
  void let_go() {
    ::close(go_);
    go_ = -1;
  }
  void end(int signal) {
    if (pid_ < 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    if (go_ >= 0) ::close(go_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int go_ = -1;
};

std::string lock_refusal(const std::string& folder) {
  try {
    OutputFolderLock::take(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string lock_file(const TemporaryFolder& folder) { return folder / OutputFolderLock::kFile; }

TEST(OutputFolderLock, ASecondProcessIsToldWhoHoldsTheFolder) {
  const TemporaryFolder folder;
  LockHolder holder(folder.path());
  const std::string text = lock_refusal(folder.path());
  EXPECT_NE(text.find("process " + std::to_string(holder.pid()) + " on host " + host_name() + ", since 20"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("--output-dir"), std::string::npos) << text;
  // Also under another name of the folder.
  std::filesystem::create_directory_symlink(folder.path(), folder / "link");
  EXPECT_NE(lock_refusal(folder / "link"), "");
}

TEST(OutputFolderLock, AKilledHolderBlocksNobodyAndNothingIsLeft) {
  const TemporaryFolder folder;
  LockHolder holder(folder.path());
  holder.end(SIGKILL);
  ASSERT_TRUE(std::filesystem::exists(lock_file(folder))) << "a stale file, as a crash leaves it";
  EXPECT_EQ(lock_refusal(folder.path()), "");
  EXPECT_FALSE(std::filesystem::exists(lock_file(folder)));
}

TEST(OutputFolderLock, OneProcessMayTakeAFolderTwice) {
  const TemporaryFolder folder;
  auto first = OutputFolderLock::take(folder.path());
  const auto second = OutputFolderLock::take(folder.path());
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(lock_file(folder)));
}

// A process was killed while it saved the model.
TEST(TrainingFolder, FilesThatKilledProcessesHaveLeftAreRemoved) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "1_Pooling");
  std::filesystem::create_directories(folder / "checkpoint-3");
  const std::vector<std::string> left{"config.json.unfinished-JdN3VY", "1_Pooling/config.json.unfinished-a1b2c3"};
  const std::vector<std::string> others{"config.json.backup", ".unfinished-JdN3VY", "notes.unfinished-today",
                                        "checkpoint-3/x.unfinished-JdN3VY"};
  for (const auto& names : {left, others}) {
    for (const std::string& name : names) write_file_atomically(folder / name, "{");
  }
  TrainingArguments args;
  args.output_dir = folder.path();
  TrainingFolder(args).take(OutputFolderLock::Awaited::SameJob);
  for (const std::string& name : left) EXPECT_FALSE(std::filesystem::exists(folder / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
}

TEST(OutputFolderLock, AHolderOfTheSameJobIsWaitedFor) {
  const TemporaryFolder folder;
  ::setenv("TORCHELASTIC_RUN_ID", "job-7", 1);
  LockHolder holder(folder.path());
  std::thread ends([&] { holder.let_go(); });
  EXPECT_EQ(lock_refusal(folder.path()), "");
  ends.join();
  // A process of another job is not awaited,
  LockHolder stays(folder.path());
  ::setenv("TORCHELASTIC_RUN_ID", "job-8", 1);
  EXPECT_NE(lock_refusal(folder.path()), "");
  ::unsetenv("TORCHELASTIC_RUN_ID");
  // unless this rank was restarted.
  ::setenv("LOCKSTEP_GENERATION", "1", 1);
  std::thread goes([&] { stays.let_go(); });
  EXPECT_EQ(lock_refusal(folder.path()), "");
  goes.join();
  ::unsetenv("LOCKSTEP_GENERATION");
}

// The process of a first rank that was lost may end late, under load.
TEST(OutputFolderLock, WhoTakesALostRanksPlaceWaitsForAnyHolder) {
  const TemporaryFolder folder;
  LockHolder holder(folder.path());
  EXPECT_NE(lock_refusal(folder.path()), "");
  std::thread ends([&] { holder.let_go(); });
  EXPECT_TRUE(OutputFolderLock::take(folder.path(), OutputFolderLock::Awaited::Any));
  ends.join();
  LockHolder stays(folder.path());
  EXPECT_THROW(OutputFolderLock::take(folder.path(), OutputFolderLock::Awaited::Any, std::chrono::milliseconds(50)),
               Error);
}

TEST(OutputFolderLock, WhoTriesIsToldWhoHoldsTheFolder) {
  const TemporaryFolder folder;
  LockHolder holder(folder.path());
  std::string who;
  EXPECT_FALSE(OutputFolderLock::try_take(folder.path(), who));
  EXPECT_EQ(who.substr(0, who.find(", since 20")),
            "process " + std::to_string(holder.pid()) + " on host " + host_name());
  holder.end(SIGKILL);
  const auto lock = OutputFolderLock::try_take(folder.path(), who);
  ASSERT_TRUE(lock);
  EXPECT_EQ(OutputFolderLock::try_take(folder.path(), who), lock);
}

TEST(OutputFolderLock, AFileOfAnotherKindIsNoHolder) {
  const TemporaryFolder folder;
  std::ofstream(lock_file(folder)) << "not JSON";
  EXPECT_EQ(lock_refusal(folder.path()), "");
}

}  // namespace
}  // namespace lockstep
