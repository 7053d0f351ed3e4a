// Tests that weights in shards train a model, from its building to the saved file, on hosts of which none could hold
// what DistributedDataParallel needs.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/launch.h"
#include "tests/support/memory/memory_limit.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

// GPT-2 with a vocabulary of bytes: 86 M parameters, P = 343 MB. DistributedDataParallel holds 4 P on each host.
// Weights in shards are 2 P on each of two, the layers in use, and a pool of gradients. LibTorch and the data take 0.2
// GB.
constexpr std::int64_t kHostBytes = std::int64_t{1300} << 20;

// Trainings of 86 M parameters. Stage3Memory and DeferredShards measure the memory of small ones in every run.
class SmallHostsLong : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
    if (const auto reason = MemoryLimit::why_not()) GTEST_SKIP() << *reason;
  }

  // Trains on two hosts with so much memory each. @return  how each ended
  std::vector<ProgramEnd> train(const Words& flags) {
    const NetworkHosts hosts(2, "10gbit");
    limits_.clear();
    std::vector<std::unique_ptr<RunningProgram>> nodes;
    for (int host = 0; host < 2; ++host) {
      limits_.push_back(std::make_unique<MemoryLimit>(kHostBytes));
      Words words{kBin + "/lockstep",
                  "train",
                  "--task",
                  "language-modeling",
                  "--model",
                  "gpt2",
                  "--tokenizer",
                  data_ + "/bytes-vocab",
                  "--train-file",
                  data_ + "/reviews.csv",
                  "--validation-file",
                  data_ + "/reviews-test.csv",
                  "--text-column",
                  "review",
                  "--max-length",
                  "16",
                  "--per-device-train-batch-size",
                  "1",
                  "--max-train-samples",
                  "40",
                  "--max-eval-samples",
                  "2",
                  "--logging-steps",
                  "1",
                  "--output-dir",
                  folder_ / "out"};
      words.insert(words.end(), flags.begin(), flags.end());
      words = hosts.on(host, launch({"--nnodes", "2", "--node-rank", std::to_string(host), "--nproc-per-node", "1",
                                     "--max-restarts", "0", "--master-addr", hosts.address(0)},
                                    words));
      nodes.push_back(std::make_unique<RunningProgram>(limits_.back()->on(words), job_));
    }
    std::vector<ProgramEnd> ends;
    for (const auto& node : nodes) ends.push_back(node->wait(Deadline::after(std::chrono::minutes(4))));
    return ends;
  }
  void expect_fits(const std::vector<ProgramEnd>& ends) {
    for (std::size_t host = 0; host < 2; ++host) {
      EXPECT_EQ(ends[host].code, 0) << ends[host].err;
      EXPECT_FALSE(limits_[host]->has_killed()) << host;
    }
  }

  const std::string data_ = std::string(LOCKSTEP_SOURCE_DIR) + "/data";
  const TemporaryFolder folder_;
  std::vector<std::unique_ptr<MemoryLimit>> limits_;
  const Changes job_{
      {"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000d2"}, {"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}};
};

TEST_F(SmallHostsLong, TrainEvaluateSaveAndResumeWithWeightsInShardsWhatTheyCannotHold) {
  const std::vector<ProgramEnd> whole = train({"--fuse", "false", "--max-steps", "1", "--save-strategy", "no"});
  EXPECT_TRUE(limits_[0]->has_killed() || limits_[1]->has_killed()) << limits_[0]->peak() << " bytes were enough\n"
                                                                    << whole[0].err;
  const std::vector<ProgramEnd> first = train({"--fsdp", "full_shard", "--max-steps", "2"});
  expect_fits(first);
  EXPECT_TRUE(has(first[0].out, "'train_loss'")) << first[0].out;
  EXPECT_TRUE(has(first[0].out, "'eval_loss'")) << first[0].out;
  const auto bytes = std::filesystem::file_size(folder_ / "out/model.safetensors");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "out/checkpoint-2/model.safetensors"), bytes);
  EXPECT_GT(bytes, 330'000'000);
  const std::vector<ProgramEnd> resumed =
      train({"--fsdp", "full_shard", "--fsdp-config", R"({"state_dict_type": "SHARDED_STATE_DICT"})", "--max-steps",
             "3", "--resume-from-checkpoint", "true"});
  expect_fits(resumed);
  EXPECT_TRUE(has(resumed[0].out, "Continuing from ")) << resumed[0].out;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/checkpoint-3/model_shard-00002-of-00002.safetensors"));
}

}  // namespace
}  // namespace lockstep
