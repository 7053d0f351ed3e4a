// Tests that a training continues from checkpoints that its ranks wrote in parts as from those that rank 0 wrote whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lockstep/comm/spawn.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/resume/stopped_run.h"

namespace lockstep {
namespace {

// The weights at the end on `ranks` ranks, and the checkpoints that are left in the folder. `run.ranks` stays above 1,
// so that there is no dropout: ranks that are threads share a generator, and one that continues alone would have its
// state.
std::pair<at::Tensor, std::vector<std::string>> end_of(const StoppedRun& run, int ranks, const std::string& folder,
                                                       const std::string& resume_from) {
  at::Tensor weights;
  spawn_threads(ranks, [&](const std::shared_ptr<Communicator>& group) {
    const RunEnd end = train_tokens(run, group, folder, resume_from, true);
    if (group->rank() == 0) weights = end.weights;
  });
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("checkpoint-", 0) == 0) left.push_back(name);
  }
  std::sort(left.begin(), left.end());
  return {weights, left};
}

// What a training saves as one file and what it saves in parts must give the same bits, on any number of ranks.
TEST(ResumeFromShards, OfTwoRanksOnOneAndThreeHasTheBitsOfAWholeSave) {
  const TemporaryFolder whole, parts, unused;
  StoppedRun run{"", 2, 1, 4, false, true, 23, 2, true};
  end_of(run, 2, whole.path(), "");
  run.saves_shards = true;
  end_of(run, 2, parts.path(), "");
  EXPECT_TRUE(std::filesystem::exists(parts / "checkpoint-4/model_shard-00002-of-00002.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(parts / "checkpoint-4/model.safetensors"));
  for (const int ranks : {1, 3}) {
    for (const bool shares_gradients : {true, false}) {  // a checkpoint of stage 2 continues in stage 1, too
      run.shards_gradients = shares_gradients;
      const at::Tensor want = end_of(run, ranks, unused.path(), whole / "checkpoint-4").first;
      EXPECT_TRUE(end_of(run, ranks, unused.path(), parts / "checkpoint-4").first.equal(want)) << ranks;
    }
  }
}

TEST(ResumeFromShards, TheBestModelIsKeptAndLoadedAtTheEnd) {
  const TemporaryFolder whole, parts;
  StoppedRun run{"", 2, 1, 4, false, true, 23, 2, true, false, true};
  const auto want = end_of(run, 2, whole.path(), "");
  run.saves_shards = true;
  const auto got = end_of(run, 2, parts.path(), "");
  EXPECT_TRUE(got.first.equal(want.first));
  EXPECT_EQ(got.second, want.second);
  EXPECT_LE(got.second.size(), 2U) << "the best and the newest";
}

}  // namespace
}  // namespace lockstep
