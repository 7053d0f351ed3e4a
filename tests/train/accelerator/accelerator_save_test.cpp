// Tests save_model, hooks of save_state and load_state, and saving in the background.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

AcceleratorOptions saving_options(const Membership& membership) {
  AcceleratorOptions options;
  options.ddp.process_group = make_communicator(membership.world_size == 1 ? "" : "thread", membership);
  return options;
}

void fill(torch::nn::Linear& net, double value) {
  const torch::NoGradGuard no_grad;
  net->weight.fill_(value);
}

TEST(AcceleratorSave, SaveModelWritesWeightsWithoutAPrefixInShards) {
  const TemporaryFolder folder;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    Accelerator accelerator(saving_options(membership));
    torch::nn::Linear net(8, 4);
    auto [model] = accelerator.prepare(net);
    fill(net, 3);
    accelerator.save_model(model, folder / "whole");
    accelerator.save_model(model, folder / "parts", 64);
    EXPECT_TRUE(std::filesystem::exists(folder / "parts/model.safetensors.index.json"));
    EXPECT_THROW(accelerator.save_model(model, "/proc/nothing"), Error) << "on rank " << membership.rank;
  });
  for (const char* name : {"whole", "parts"}) {
    const WeightFiles files(folder / name);
    EXPECT_EQ(files.names(), (std::vector<std::string>{"bias", "weight"}));
    EXPECT_TRUE(files.tensor("weight").equal(torch::full({4, 8}, 3.0F)));
  }
}

TEST(AcceleratorSave, HooksSeeChangeAndAddToWhatIsSavedAndRead) {
  const TemporaryFolder folder;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    Accelerator accelerator(saving_options(membership));
    torch::nn::Linear first(2, 1), second(2, 1);
    auto prepared = accelerator.prepare(first, second);
    fill(first, 1);
    fill(second, 2);
    int saves = 0, loads = 0;
    auto handle = accelerator.register_save_state_pre_hook([&](StateToSave& state) {
      ++saves;
      EXPECT_EQ(state.weights.size(), membership.rank == 0 ? 2U : 0U);
      if (membership.rank != 0) return;
      for (auto& [name, tensor] : state.weights[1]) tensor = tensor + 40;
      state.files["notes.txt"] = "by a hook";
    });
    accelerator.save_state(folder / "state");
    handle.remove();
    accelerator.save_state(folder / "later");
    EXPECT_EQ(saves, 1);

    accelerator.register_load_state_pre_hook([&](StateToLoad& state) {
      ++loads;
      EXPECT_EQ(std::filesystem::path(state.folder).filename(), "state");
      state.weights[0].clear();  // this one is not read
    });
    fill(first, 7);
    accelerator.load_state(folder / "state");
    EXPECT_EQ(loads, 1);
    EXPECT_EQ(first->weight[0][0].item<double>(), 7);
    EXPECT_EQ(second->weight[0][0].item<double>(), 42);
  });
  EXPECT_TRUE(std::filesystem::exists(folder / "state/notes.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder / "later/notes.txt"));
}

TEST(AcceleratorSave, InTheBackgroundKeepsWhatWasThereAtTheCall) {
  const TemporaryFolder folder;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    Accelerator accelerator(saving_options(membership));
    torch::nn::Linear net(2, 1);
    accelerator.prepare(net);
    SaveStateOptions in_background;
    in_background.background = true;
    for (int step = 1; step <= 3; ++step) {
      fill(net, step);
      accelerator.save_state(folder / "state", in_background);
      fill(net, -1);  // the loop continues
    }
    accelerator.load_state(folder / "state");  // waits
    EXPECT_EQ(net->weight[0][0].item<double>(), 3);
    fill(net, 4);
    accelerator.save_state(folder / "other", in_background);
    accelerator.end_training();
  });
  EXPECT_EQ(WeightFiles(folder / "other").tensor("weight")[0][0].item<double>(), 4);
}

}  // namespace
}  // namespace lockstep
