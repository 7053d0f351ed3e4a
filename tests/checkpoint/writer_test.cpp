#include "lockstep/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Steps = std::vector<std::int64_t>;

CheckpointWriterOptions options_for(const std::string& folder, FileSystem& files) {
  CheckpointWriterOptions options;
  options.output_dir = folder;
  options.file_system = &files;
  return options;
}

// Creating files blocks until the gate opens, so that a write takes as long as a test needs.
class GatedFileSystem : public FaultyFileSystem {
 public:
  int create(const std::string& path, mode_t mode) override {
    std::unique_lock<std::mutex> lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return FaultyFileSystem::create(path, mode);
  }
  void wait_until_reached() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

TEST(CheckpointWriter, WritesWhatItWasGivenWhateverHappensToTheTensorsAfterwards) {
  const TemporaryFolder folder;
  GatedFileSystem files;
  CheckpointWriter writer(options_for(folder / "new/deep", files));
  CheckpointContent content = sample_content(3);
  EXPECT_EQ(writer.save(content), folder / "new/deep/checkpoint-3");
  files.wait_until_reached();
  for (auto& item : content.weights) item.second.zero_();
  for (auto& [name, state] : content.optimizer.state) {
    for (auto& item : state.tensors) item.second.zero_();
  }
  for (auto& item : content.generators) item.second.zero_();
  for (auto& item : content.rank_tensors) item.second.zero_();
  EXPECT_FALSE(std::filesystem::exists(folder / "new/deep/checkpoint-3"));
  EXPECT_EQ(writer.last_published(), "");
  files.open();
  writer.wait();
  EXPECT_EQ(writer.last_published(), folder / "new/deep/checkpoint-3");
  expect_sample(Checkpoint(folder / "new/deep/checkpoint-3"), 3);
  EXPECT_GT(writer.last_times().write_s, 0);
}

TEST(CheckpointWriter, PublishesAWriteThatIsUnderWayWhenItGoes) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  CheckpointWriter(options_for(folder.path(), files)).save(sample_content(5));
  expect_sample(Checkpoint(folder / "checkpoint-5"), 5);
}

TEST(CheckpointWriter, TellsAnErrorOfTheBackgroundAtTheNextSaveOnceAndThenWorks) {
  const TemporaryFolder folder;
  FaultyFileSystem files(FaultyFileSystem::Fault::Full, 4);
  CheckpointWriter writer(options_for(folder.path(), files));
  writer.save(sample_content(1));
  try {
    writer.save(sample_content(2));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("No space left"), std::string::npos) << error.what();
  }
  files.free_space();
  writer.save(sample_content(3));
  writer.wait();
  EXPECT_EQ(steps_in(folder.path()), Steps{3});
  EXPECT_TRUE(hidden_names_in(folder.path()).empty());
}

TEST(CheckpointWriter, TellsAnErrorOfTheBackgroundAtTheEnd) {
  const TemporaryFolder folder;
  FaultyFileSystem files(FaultyFileSystem::Fault::Full, 4);
  CheckpointWriter writer(options_for(folder.path(), files));
  writer.save(sample_content(1));
  EXPECT_THROW(writer.wait(), Error);
  EXPECT_NO_THROW(writer.wait());
}

TEST(CheckpointWriter, LooksForSpaceBeforeItWritesAByte) {
  class SmallDisk : public FaultyFileSystem {
    std::int64_t free_bytes(const std::string&) override { return 4096; }
  };
  const TemporaryFolder folder;
  SmallDisk files;
  CheckpointWriterOptions options = options_for(folder.path(), files);
  options.background = false;
  CheckpointWriter writer(options);
  try {
    writer.save(sample_content(1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("the file system has only 4096 left"), std::string::npos) << error.what();
  }
  EXPECT_EQ(files.bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

struct RotationCase {
  const char* name;
  int limit;
  std::vector<std::pair<std::int64_t, std::int64_t>> saves;  // step, best step (negative: none)
  Steps left;
  friend std::ostream& operator<<(std::ostream& out, const RotationCase& c) { return out << c.name; }
};

class Rotation : public ::testing::TestWithParam<RotationCase> {};

TEST_P(Rotation, KeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  CheckpointWriterOptions options = options_for(folder.path(), files);
  options.save_total_limit = GetParam().limit;
  {
    CheckpointWriter writer(options);
    for (const auto& [step, best] : GetParam().saves) {
      CheckpointContent content = sample_content(step);
      if (best >= 0) content.trainer_state->best_global_step = best;
      writer.save(content);
    }
  }
  EXPECT_EQ(steps_in(folder.path()), GetParam().left);
  const CheckpointSearch search = find_newest_checkpoint(folder.path());
  ASSERT_TRUE(search.newest);
  EXPECT_EQ(search.newest->step(), GetParam().saves.back().first) << "the newest is the one written last";
}

INSTANTIATE_TEST_SUITE_P(
    Table, Rotation,
    ::testing::Values(RotationCase{"no_limit", 0, {{1, -1}, {2, -1}, {3, -1}}, {1, 2, 3}},
                      RotationCase{"limit_two", 2, {{1, -1}, {2, -1}, {3, -1}}, {2, 3}},
                      RotationCase{"limit_one", 1, {{1, -1}, {2, -1}, {10, -1}}, {10}},
                      RotationCase{"best_is_old", 2, {{1, 1}, {2, 1}, {3, 1}, {4, 1}}, {1, 4}},
                      RotationCase{"limit_one_keeps_best_too", 1, {{1, 1}, {2, 1}, {3, 1}}, {1, 3}},
                      RotationCase{"best_moves", 2, {{1, 1}, {2, 2}, {3, 2}, {4, 4}}, {3, 4}},
                      RotationCase{"went_back_to_an_earlier_step", 2, {{100, -1}, {200, -1}, {150, -1}}, {150, 200}},
                      RotationCase{"same_step_again", 2, {{1, -1}, {2, -1}, {2, -1}, {2, -1}}, {1, 2}}),
    [](const auto& test) { return test.param.name; });

TEST(CheckpointWriter, LeavesFoldersThatAreNotItsOwn) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  CheckpointWriterOptions options = options_for(folder.path(), files);
  options.save_total_limit = 1;
  std::filesystem::create_directories(folder / "checkpoint-7");  // of another library: it has no manifest
  std::filesystem::create_directories(folder / "runs");
  std::filesystem::create_directories(folder / "checkpoint-2/inside");  // occupies the name of the next checkpoint
  CheckpointWriter writer(options);
  for (const std::int64_t step : {1, 2}) writer.save(sample_content(step));
  writer.wait();
  EXPECT_EQ(steps_in(folder.path()), (Steps{2, 7}));
  EXPECT_TRUE(std::filesystem::exists(folder / "runs"));
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoint-2.replaced/inside"));
  expect_sample(Checkpoint(folder / "checkpoint-2"), 2);
}

struct RefusedContent {
  const char* name;
  void (*spoil)(CheckpointContent&);
  const char* reason;
  friend std::ostream& operator<<(std::ostream& out, const RefusedContent& c) { return out << c.name; }
};

class RefusedContents : public ::testing::TestWithParam<RefusedContent> {};

TEST_P(RefusedContents, SayWhy) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  CheckpointWriterOptions options = options_for(folder.path(), files);
  options.background = false;
  CheckpointWriter writer(options);
  CheckpointContent content = sample_content(1);
  GetParam().spoil(content);
  try {
    writer.save(content);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find(GetParam().reason), std::string::npos) << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedContents,
    ::testing::Values(
        RefusedContent{"negative_step", [](CheckpointContent& c) { c.step = -1; }, "negative"},
        RefusedContent{"file_in_a_folder", [](CheckpointContent& c) { c.files["../x"] = ""; }, "\"../x\""},
        RefusedContent{"file_in_two_folders", [](CheckpointContent& c) { c.files["a/b/c"] = ""; }, "\"a/b/c\""},
        RefusedContent{"file_above_a_folder", [](CheckpointContent& c) { c.files["a/.."] = ""; }, "\"a/..\""},
        RefusedContent{"file_of_the_format", [](CheckpointContent& c) { c.files["manifest.json"] = ""; }, "manifest"},
        RefusedContent{"hidden_file", [](CheckpointContent& c) { c.files[".x"] = ""; }, "\".x\""},
        RefusedContent{"two_weights_of_one_name", [](CheckpointContent& c) { c.weights.push_back(c.weights.front()); },
                       "layer.weight"},
        RefusedContent{"callback_state_that_is_not_json",
                       [](CheckpointContent& c) { c.trainer_state->stateful_callbacks["C"] = "{"; }, "callback C"}),
    [](const auto& test) { return test.param.name; });

// One folder with a name that the caller chooses, as in Accelerator::save_state.
TEST(CheckpointNames, OneNameIsReplacedAndWhatIsOfOthersStays) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  CheckpointWriterOptions options = options_for(folder.path(), files);
  options.names = CheckpointNames::single("state");
  const auto is_there = [&](const std::string& name) { return std::filesystem::exists(folder / name); };
  for (const char* left : {".tmp-state-7", ".tmp-state-2-1", ".del-state", ".old-state-2", "state-2"}) {
    std::filesystem::create_directory(folder / left);
  }
  for (const std::int64_t step : {3, 4}) {
    CheckpointWriter writer(options);
    EXPECT_EQ(writer.save(sample_content(step)), folder / "state");
  }
  EXPECT_FALSE(is_there(".tmp-state-7"));
  EXPECT_FALSE(is_there(".del-state"));
  for (const char* of_another : {".tmp-state-2-1", ".old-state-2", "state-2"}) EXPECT_TRUE(is_there(of_another));
  EXPECT_EQ(find_newest_checkpoint(folder.path(), options.names).newest->step(), 4);
  // A crash between the two renames of a file system that cannot swap: the previous checkpoint was being replaced.
  std::filesystem::rename(folder / "state", folder / ".old-state");
  EXPECT_EQ(find_newest_checkpoint(folder.path(), options.names).newest->step(), 4);
  CheckpointWriter(options).save(sample_content(5));
  EXPECT_FALSE(is_there(".old-state"));
  EXPECT_EQ(find_newest_checkpoint(folder.path(), options.names).newest->step(), 5);
}

TEST(CheckpointWriter, RefusesAnOutputFolderThatIsAFile) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  ::close(files.create(folder / "file", 0644));
  EXPECT_THROW(CheckpointWriter(options_for(folder / "file", files)), Error);
  EXPECT_THROW(CheckpointWriter(options_for(folder / "file/inside", files)), Error);
}

}  // namespace
}  // namespace lockstep
