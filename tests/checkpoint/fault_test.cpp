// Tests a dying process, a power cut and a full disk: at every call that changes something, and at many bytes of a
// save.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using Fault = FaultyFileSystem::Fault;

constexpr int kSaved = 0, kRefused = 1, kWrongError = 2;

/// The folder's content before the save that is disturbed.
struct FaultScene {
  const char* name;
  int number = 0;
  bool replaces = false;     ///< a checkpoint of the same step already exists
  bool can_exchange = true;  ///< the file system can swap names
  bool background = false;
  int save_total_limit = 1;
  friend std::ostream& operator<<(std::ostream& out, const FaultScene& scene) { return out << scene.name; }
};

void save_step(FileSystem& files, const std::string& folder, std::int64_t step, const FaultScene& scene,
               int save_total_limit) {
  CheckpointWriterOptions options;
  options.output_dir = folder;
  options.file_system = &files;
  options.background = scene.background;
  options.save_total_limit = save_total_limit;
  CheckpointWriter writer(options);
  writer.save(sample_content(step));
  writer.wait();
}

void set_scene(const std::string& folder, const FaultScene& scene) {
  FaultyFileSystem files;  // without a fault: works as the real one, but does not wait for the disk
  if (scene.replaces) save_step(files, folder, 2, {}, 0);
  save_step(files, folder, 1, {}, 0);
}

// Saves step 2 through `files` in a child process.
int save_in_child(FaultyFileSystem& files, const std::string& folder, const FaultScene& scene) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = kSaved;
    try {
      save_step(files, folder, 2, scene, scene.save_total_limit);
    } catch (const Error& error) {
      code = std::string(error.what()).find("No space left") == std::string::npos ? kWrongError : kRefused;
      files.free_space();
      try {
        save_step(files, folder, 2, scene, scene.save_total_limit);  // now there is space
      } catch (const Error&) {
        code = kWrongError;
      }
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// In every case, the newest whole checkpoint has step 1 or step 2, and the next save works.
void expect_nothing_lost(const std::string& folder, bool must_be_new, const FaultScene& scene) {
  const CheckpointSearch search = find_newest_checkpoint(folder);
  ASSERT_TRUE(search.newest) << search.notice();
  if (must_be_new) {
    EXPECT_EQ(search.newest->step(), 2);
  }
  expect_sample(*search.newest, search.newest->step());
  FaultyFileSystem files;
  save_step(files, folder, 3, scene, 1);
  const CheckpointSearch after = find_newest_checkpoint(folder);
  ASSERT_TRUE(after.newest);
  expect_sample(*after.newest, 3);
  EXPECT_TRUE(hidden_names_in(folder).empty()) << hidden_names_in(folder).front();
  EXPECT_EQ(steps_in(folder), std::vector<std::int64_t>{3});
}

class SaveFaults : public ::testing::TestWithParam<FaultScene> {
 protected:
  struct Places {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
  };
  static Places count_places() {
    const TemporaryFolder folder;
    set_scene(folder.path(), GetParam());
    FaultyFileSystem files;
    files.can_exchange = GetParam().can_exchange;
    save_step(files, folder.path(), 2, GetParam(), GetParam().save_total_limit);
    return {files.calls(), files.bytes()};
  }

  static void strike(Fault fault, std::int64_t at_call, std::int64_t at_byte) {
    SCOPED_TRACE("call " + std::to_string(at_call) + ", byte " + std::to_string(at_byte));
    const TemporaryFolder folder;
    set_scene(folder.path(), GetParam());
    FaultyFileSystem files(fault, at_call, at_byte);
    files.can_exchange = GetParam().can_exchange;
    const int status = save_in_child(files, folder.path(), GetParam());
    if (fault == Fault::Full) {
      ASSERT_TRUE(WIFEXITED(status));
      EXPECT_NE(WEXITSTATUS(status), kWrongError);
      expect_nothing_lost(folder.path(), true, GetParam());
    } else {
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the process was not struck";
      expect_nothing_lost(folder.path(), false, GetParam());
    }
  }

  // Strikes at every call, and at `bytes` places among the bytes. Each strike forks a process with LibTorch,
  // which takes most of the time: in the suite, every fourth of them is made, and each scene begins with another one.
  static void strike_everywhere(Fault fault, std::int64_t bytes) {
    const Places all = count_places();
    ASSERT_GT(all.calls, 15);
    const std::int64_t stride = test_size(4, 1);
    const std::int64_t first = (static_cast<std::int64_t>(fault) + GetParam().number) % stride;
    for (std::int64_t call = first; call < all.calls && !HasFatalFailure(); call += stride) strike(fault, call, -1);
    for (std::int64_t i = first; i < bytes && !HasFatalFailure(); i += stride) strike(fault, -1, all.bytes * i / bytes);
    std::cout << "struck at every " << stride << "th of " << all.calls << " calls and of " << bytes << " places in "
              << all.bytes << " bytes\n";
  }
};

TEST_P(SaveFaults, KilledAnywhereNothingIsLost) { strike_everywhere(Fault::Kill, 30); }
TEST_P(SaveFaults, NothingIsLostWhenThePowerFailsAndDataIsGone) { strike_everywhere(Fault::LoseData, 10); }
TEST_P(SaveFaults, NothingIsLostWhenThePowerFailsAndNamesAreGone) { strike_everywhere(Fault::LoseNames, 10); }
TEST_P(SaveFaults, NothingIsLostWhenTheDiskIsFull) { strike_everywhere(Fault::Full, 30); }

INSTANTIATE_TEST_SUITE_P(Scenes, SaveFaults,
                         ::testing::Values(FaultScene{"rotates"}, FaultScene{"in_the_background", 1, false, true, true},
                                           FaultScene{"replaces", 2, true}, FaultScene{"cannot_swap", 3, true, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// Tests the harness itself: a writer whose syncs do nothing does lose checkpoints in a power cut.
TEST(SaveFaultsHarness, NoticesAWriterThatDoesNotSync) {
  bool lost = false;
  for (std::int64_t call = 0; !lost; ++call) {
    const TemporaryFolder folder;
    set_scene(folder.path(), {});
    FaultyFileSystem files(Fault::LoseData, call);
    files.ignores_syncs = true;
    if (!WIFSIGNALED(save_in_child(files, folder.path(), {}))) break;
    lost = !find_newest_checkpoint(folder.path()).newest;
  }
  EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace lockstep
