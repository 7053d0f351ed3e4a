// accelerate's configuration file for FSDP, from `lockstep launch` to a training.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/train/review_classification.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

// @param fsdp  lines of fsdp_config
ProgramEnd launch_with_fsdp(const TemporaryFolder& folder, const std::string& fsdp) {
  const std::string file = folder / "fsdp.yaml";
  std::ofstream(file) << "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
                      << fsdp << "mixed_precision: 'no'\nnum_machines: 1\nnum_processes: 2\nuse_cpu: true\n";
  auto words = review_classification(folder / "out", {"--max-train-samples", "64", "--max-length", "32", "--max-steps",
                                                      "2", "--save-steps", "2", "--seed", "5"});
  words.insert(words.begin(), {std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "launch", "--config-file", file});
  return run_program(words, {}, std::chrono::seconds(240));
}

TEST(LaunchFsdp, IsDoneByATrainingThatSavesInParts) {
  const std::vector<std::string> all{
      "  fsdp_version: 1\n  fsdp_reshard_after_forward: HYBRID_SHARD\n  fsdp_auto_wrap_policy: "
      "TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: BertLayer\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
      "  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"};
  for (const std::string& fsdp : std::vector<std::string>(all.begin(), test_size(all.begin() + 1, all.end()))) {
    const TemporaryFolder folder;
    const ProgramEnd end = launch_with_fsdp(folder, fsdp);
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_NE((end.out + end.err).find("sharded gradients"), std::string::npos) << end.out << end.err;
    EXPECT_TRUE(std::filesystem::exists(folder / "out/checkpoint-2/model_shard-00001-of-00002.safetensors"));
    EXPECT_FALSE(std::filesystem::exists(folder / "out/checkpoint-2/model.safetensors"));
  }
}

TEST(LaunchFsdp, IsRefusedByTheTrainingIfItIsNotThere) {
  const TemporaryFolder folder;
  const ProgramEnd end = launch_with_fsdp(folder, "  fsdp_version: 2\n  fsdp_offload_params: true\n");
  EXPECT_NE(end.code, 0);
  EXPECT_NE(end.err.find("fsdp_config: offload_params"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("variables of ACCELERATE_USE_FSDP"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace lockstep
