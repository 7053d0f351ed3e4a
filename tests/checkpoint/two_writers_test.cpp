// Tests that two programs which save into one folder leave each other's unfinished checkpoints alone, and remove those
// of dead processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <future>
#include <thread>

#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// Blocks in the middle of a save, before its first byte, until it is released.
class HeldUp : public FileSystem {
 public:
  ssize_t write(int fd, const void* data, std::size_t size_bytes) override {
    if (!std::exchange(has_stopped_, true)) {
      in_the_middle.set_value();
      may_go_on.get_future().wait();
    }
    return FileSystem::write(fd, data, size_bytes);
  }
  std::promise<void> in_the_middle;
  std::promise<void> may_go_on;

 private:
  bool has_stopped_ = false;
};

CheckpointWriterOptions into(const std::string& folder, FileSystem* files) {
  CheckpointWriterOptions options;
  options.output_dir = folder;
  options.background = false;
  options.file_system = files;
  return options;
}

class TwoWriters : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(TwoWriters, DoNotRemoveWhatTheOtherIsWriting) {
  const TemporaryFolder folder;
  HeldUp files;
  std::thread slow([&] { EXPECT_NO_THROW(CheckpointWriter(into(folder.path(), &files)).save(sample_content(4))); });
  files.in_the_middle.get_future().wait();
  EXPECT_NO_THROW(CheckpointWriter(into(folder.path(), nullptr)).save(sample_content(GetParam())));
  files.may_go_on.set_value();
  slow.join();
  for (const std::int64_t step : {std::int64_t{4}, GetParam()}) {
    EXPECT_NO_THROW(Checkpoint(checkpoint_path(folder.path(), step), Verify::Checksums)) << step;
  }
  EXPECT_TRUE(hidden_names_in(folder.path()).empty());
}

// Both programs' first saves have the same number; with 4 also the same step.
INSTANTIATE_TEST_SUITE_P(Steps, TwoWriters, ::testing::Values(8, 4));

TEST(TwoWritersLeft, WhatADeadOneWasWritingIsRemoved) {
  const TemporaryFolder folder;
  const auto ends = ranks_as_processes(1, [&](const Membership&) {
    OutputFolder(real_file_system(), folder.path()).recover();
    OutputFolder writing(real_file_system(), folder.path());
    writing.stage(4, 1);
    ::raise(SIGKILL);
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  EXPECT_EQ(hidden_names_in(folder.path()).size(), 2U);  // the folder and its lock
  OutputFolder(real_file_system(), folder.path()).recover();
  EXPECT_TRUE(hidden_names_in(folder.path()).empty());
}

TEST(TwoWritersLeft, WhatStandsByIsNotPutBackWhileSomebodyWrites) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".old-checkpoint-4");
  {
    OutputFolder writing(real_file_system(), folder.path());
    writing.stage(4, 1);
    OutputFolder(real_file_system(), folder.path()).recover();
    EXPECT_TRUE(std::filesystem::exists(folder / ".old-checkpoint-4"));
  }
  OutputFolder(real_file_system(), folder.path()).recover();
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoint-4"));
  EXPECT_TRUE(hidden_names_in(folder.path()).empty());
}

}  // namespace
}  // namespace lockstep
