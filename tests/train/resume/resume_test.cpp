// Tests that a stopped and resumed training ends with the weights of an uninterrupted one, bit for bit.
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/resume/stopped_run.h"

namespace lockstep {
namespace {

// Times differ; everything else must be equal.
std::vector<LogEntry> without_times(std::vector<LogEntry> history) {
  for (LogEntry& entry : history) {
    for (auto value = entry.values.begin(); value != entry.values.end();) {
      const bool is_time =
          value->first.find("runtime") != std::string::npos || value->first.find("per_second") != std::string::npos;
      value = is_time ? entry.values.erase(value) : std::next(value);
    }
  }
  return history;
}

class Resume : public ::testing::TestWithParam<StoppedRun> {};

TEST_P(Resume, EndsWithTheSameBits) {
  const StoppedRun run = GetParam();
  const auto both = [&](const std::shared_ptr<Communicator>& group, const std::string& folder) {
    const RunEnd whole = train_tokens(run, group, folder, "");
    const std::string checkpoint = folder + "/checkpoint-" + std::to_string(run.saved_step);
    const RunEnd resumed = train_tokens(run, group, folder, checkpoint);
    EXPECT_TRUE(resumed.weights.equal(whole.weights));
    const auto want = without_times(whole.history);
    const auto got = without_times(resumed.history);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].step, want[i].step);
      EXPECT_EQ(got[i].values, want[i].values) << "step " << want[i].step;
    }
  };
  const TemporaryFolder folder;
  if (run.ranks == 1) {
    both(nullptr, folder.path());
  } else {
    SpawnOptions how;
    if (run.shards_weights) how.engine = "tcp";  // ranks that share memory have one copy of the weights
    spawn_threads(
        run.ranks, [&](const std::shared_ptr<Communicator>& group) { both(group, folder.path()); }, how);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Resume,
    ::testing::Values(
        StoppedRun{"mid_epoch", 1, 1, 5, false, true}, StoppedRun{"at_the_epochs_end", 1, 1, 12, false, true},
        StoppedRun{"accumulating", 1, 5, 4, false, true}, StoppedRun{"grouped_by_length", 1, 2, 5, true, true},
        StoppedRun{"two_ranks_fused", 2, 1, 4, false, true}, StoppedRun{"two_ranks_plain", 2, 2, 4, false, false},
        StoppedRun{"two_ranks_sharded", 2, 2, 4, false, true, 23, 2, true},
        StoppedRun{"two_ranks_in_shards", 2, 2, 4, false, true, 23, 2, true, true},
        StoppedRun{"full_shard", 2, 2, 4, false, true, 23, 2, false, false, false, true},
        StoppedRun{"full_shard_in_shards", 2, 1, 4, false, true, 25, 2, false, true, false, true},
        StoppedRun{"one_rank_in_shards", 1, 1, 5, false, true, 23, 2, false, true},
        StoppedRun{"three_ranks_grouped", 3, 1, 3, true, true},
        // Shares of 13 and 12: one rank has no part of the epoch's last batch.
        StoppedRun{"before_a_batch_of_one_rank", 2, 1, 6, false, true, 25}),
    [](const auto& test) { return test.param.name; });

TEST(Resume, TrueTakesTheNewestAndAnotherWorldSizeMustBeAskedFor) {
  const TemporaryFolder folder;
  const StoppedRun run{"", 1, 1, 10, false, true};
  train_tokens(run, nullptr, folder.path(), "");
  const RunEnd from_newest = train_tokens(run, nullptr, folder.path(), "true");
  EXPECT_EQ(from_newest.history.back().step, 36);
  const std::string checkpoint = folder.path() + "/checkpoint-10";
  const StoppedRun two{"", 2, 1, 10, false, true};
  EXPECT_THROW(
      spawn_threads(
          2, [&](const std::shared_ptr<Communicator>& group) { train_tokens(two, group, folder.path(), checkpoint); }),
      Error);
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const RunEnd end = train_tokens(two, group, folder.path(), checkpoint, true);
    EXPECT_TRUE(torch::isfinite(end.weights).all().item<bool>());
  });
}

// A manifest that was rewritten for other files: its checksum is correct.
struct ForgedCheckpoint {
  const char* name;
  std::function<void(Manifest&)> forge;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const ForgedCheckpoint& forged) { return out << forged.name; }
};
class ResumeOfForged : public ::testing::TestWithParam<ForgedCheckpoint> {};

TEST_P(ResumeOfForged, IsRefused) {
  const TemporaryFolder folder;
  const StoppedRun run{"", 1, 1, 10, false, true};
  train_tokens(run, nullptr, folder.path(), "");
  const std::string checkpoint = folder.path() + "/checkpoint-10";
  Manifest manifest = read_manifest(checkpoint);
  GetParam().forge(manifest);
  write_file_atomically(checkpoint + "/manifest.json", manifest_json(manifest));
  try {
    train_tokens(run, nullptr, folder.path(), checkpoint);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find(GetParam().says), std::string::npos) << error.what();
    EXPECT_NE(error.where().find(checkpoint), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Table, ResumeOfForged,
    ::testing::Values(ForgedCheckpoint{"no_generators", [](Manifest& m) { m.files.erase("rng_state_0.safetensors"); },
                                       "there is no rng_state_0.safetensors"},
                      ForgedCheckpoint{"no_position", [](Manifest& m) { m.files.erase("position_0.json"); },
                                       "position_0.json does not say where rank 0 was"},
                      ForgedCheckpoint{"another_step", [](Manifest& m) { m.step = 999; },
                                       "trainer_state.json is of step 10, but manifest.json of step 999"},
                      ForgedCheckpoint{"negative_step", [](Manifest& m) { m.step = -1; }, "says \"step\": -1"},
                      ForgedCheckpoint{"no_ranks", [](Manifest& m) { m.world_size = 0; }, "says \"world_size\": 0"}),
    [](const auto& test) { return test.param.name; });

// 23 samples in batches of 2: an epoch has 12 updates on one rank, and 6 on two.
TEST(Resume, OnOtherRanksTheEpochsAreTheSameAndTheUpdatesFollow) {
  const TemporaryFolder folder, of_two;
  const StoppedRun alone{"", 1, 1, 10, false, true};
  const StoppedRun pair{"", 2, 1, 5, false, true};
  const auto go_on_by_two = [&](const std::string& checkpoint) {
    TrainerState end;
    spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
      const RunEnd run = train_tokens(pair, group, of_two.path(), checkpoint, true);
      if (group->rank() == 0) end = run.state;
    });
    return end;
  };
  EXPECT_EQ(train_tokens(alone, nullptr, folder.path(), "").state.global_step, 36);
  for (const char* step : {"10", "20"}) {
    // 10 updates use 20 samples and leave one batch for both ranks; 20 updates use 8 samples of the second epoch, and
    // leave two batches.
    const TrainerState end = go_on_by_two(folder / "checkpoint-" + step);
    EXPECT_EQ(end.global_step, std::string(step) == "10" ? 10 + 1 + 6 + 6 : 20 + 2 + 6);
    EXPECT_EQ(end.max_steps, end.global_step);
    EXPECT_DOUBLE_EQ(end.epoch, 3);
  }
  // The last of these runs saved at 25, three updates before its end. A run on two ranks from there ends there, too.
  EXPECT_EQ(go_on_by_two(of_two / "checkpoint-25").global_step, 28);
  // It is half way through the third epoch: 12 samples are used, and 11 left.
  const TrainerState end = train_tokens(alone, nullptr, folder.path(), of_two / "checkpoint-25", true).state;
  EXPECT_EQ(end.global_step, 25 + 6);
  EXPECT_DOUBLE_EQ(end.epoch, 3);
}

// 24 of 25 samples are taken. On two ranks one rank has a sample left in the epoch, and the other has none.
TEST(Resume, OnOtherRanksOneOfThemMayHaveNoBatchLeft) {
  const TemporaryFolder folder, of_two;
  train_tokens({"", 1, 1, 12, false, true, 25}, nullptr, folder.path(), "");
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const StoppedRun pair{"", 2, 1, 12, false, true, 25};
    const TrainerState end = train_tokens(pair, group, of_two.path(), folder / "checkpoint-12", true).state;
    EXPECT_EQ(end.global_step, 12 + 1 + 7 + 7);
    EXPECT_DOUBLE_EQ(end.epoch, 3);
  });
}

// 23 samples are 6 batches of 4. After one batch of 3, they are 5: the sixth would have no samples.
TEST(Resume, WithAnotherBatchSizeNoUpdateIsWithoutSamples) {
  const TemporaryFolder folder;
  StoppedRun run{"", 1, 1, 1, false, true, 23, 3};
  train_tokens(run, nullptr, folder.path(), "");
  run.batch_size = 4;
  const TrainerState end = train_tokens(run, nullptr, folder.path(), folder / "checkpoint-1").state;
  EXPECT_EQ(end.global_step, 1 + 5 + 6 + 6);
  EXPECT_DOUBLE_EQ(end.epoch, 3);
}

TEST(Resume, WhereAllIsDamagedNothingIsWrittenOver) {
  const TemporaryFolder folder;
  const StoppedRun run{"", 1, 1, 20, false, true};
  train_tokens(run, nullptr, folder.path(), "");
  std::vector<std::string> damaged;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string weights = entry.path().string() + "/model.safetensors";
    if (entry.path().filename().string().rfind("checkpoint-", 0) != 0) continue;
    std::filesystem::resize_file(weights, 100);
    damaged.push_back(weights);
  }
  EXPECT_EQ(damaged.size(), 2U) << "step 20 and the last";
  EXPECT_THROW(train_tokens(run, nullptr, folder.path(), "true"), Error);
  const StoppedRun two{"", 2, 1, 20, false, true};
  EXPECT_THROW(spawn_threads(2,
                             [&](const std::shared_ptr<Communicator>& group) {
                               train_tokens(two, group, folder.path(), "true", true);
                             }),
               Error);
  for (const std::string& weights : damaged) EXPECT_EQ(std::filesystem::file_size(weights), 100U) << weights;
}

TEST(Resume, WhereThereIsNothingATrainingStarts) {
  const TemporaryFolder folder;
  const StoppedRun run{"", 1, 1, 10, false, true};
  EXPECT_EQ(train_tokens(run, nullptr, folder.path(), "true").history.back().step, 36);
}

}  // namespace
}  // namespace lockstep
