// save_state and save_model of whole weights that lie in shards (stage 3): the main process writes what the others
// send.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/memory/peak_memory.h"
#include "tests/support/memory/tensor_mappings.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/accelerator/parts_run.h"

namespace lockstep {
namespace {

std::map<std::string, std::string> bytes_of_files(const std::string& folder) {
  std::map<std::string, std::string> bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    bytes[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return bytes;
}

// The files have the bytes of those that a rank with all weights writes, in one file and in several.
TEST(AcceleratorWholeOfStage3, AreWholeInSaveModel) {
  const TemporaryFolder folder;
  const std::map<std::string, std::uint64_t> limits{{"one", kAccelerateMaxShardBytes}, {"several", 6000}};
  run_parts({"", "tcp", 2, 3}, [&](PartsRun& run, int rank) {
    run.train(0);
    for (const auto& [name, limit] : limits) {
      for (const std::uint64_t earlier : {std::uint64_t{3000}, limit}) {
        run.accelerator().save_model(run.model(), folder / name, earlier);
      }
    }
    run.ddp().fused_step().unshard();
    if (rank == 0) {
      NamedTensors weights;
      for (const auto& item : run.net()->named_parameters()) weights.emplace_back(item.key(), item.value().detach());
      for (const auto& item : run.net()->named_buffers()) weights.emplace_back(item.key(), item.value());
      for (const auto& [name, limit] : limits) write_weight_files(folder / (name + "_whole"), weights, limit);
    }
    run.ddp().fused_step().reshard();
    run.train(1);
    EXPECT_THROW(run.accelerator().save_model(run.model(), "/proc/nothing"), Error) << "on rank " << rank;
    run.train(2);
  });
  EXPECT_EQ(bytes_of_files(folder / "one").size(), 1U);
  EXPECT_GT(bytes_of_files(folder / "several").size(), 3U);
  for (const auto& [name, limit] : limits) {
    EXPECT_EQ(bytes_of_files(folder / name), bytes_of_files(folder / (name + "_whole"))) << name;
  }
}

double most_mib_of(const std::function<void()>& save) {
  const PeakMemory peak;
  save();
  return peak.mib();
}

TEST(AcceleratorWholeOfStage3, AreInNoRanksMemoryWhileTheyAreSavedWhole) {
  const TemporaryFolder folder;
  run_ranks_as_processes(2, [&](const Membership& membership) {
    give_tensors_mappings();
    constexpr int kSide = 1024;  // a layer's weights are 4 MiB
    constexpr double kAllMib = 64;
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("tcp", membership);
    Accelerator accelerator(options);
    torch::nn::Sequential net;
    for (int i = 0; i < 16; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(kSide, kSide).bias(false)));
    SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    FuseOptions how;
    how.stage = 3;
    EXPECT_EQ(model.ddp().fuse(sgd, how).mode(), FuseMode::ShardedState) << model.ddp().fused_step().reason();
    accelerator.backward(model(torch::ones({2, kSide})).square().mean());
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_LT(most_mib_of([&] { accelerator.save_state(folder / "state"); }), kAllMib / 4);
    EXPECT_LT(most_mib_of([&, &prepared = model] { accelerator.save_model(prepared, folder / "model"); }), kAllMib / 4);
    accelerator.wait_for_everyone();
  });
  const auto bytes = static_cast<std::uintmax_t>(64) << 20;
  EXPECT_GT(std::filesystem::file_size(folder / "state/model.safetensors"), bytes);
  EXPECT_GT(std::filesystem::file_size(folder / "model/model.safetensors"), bytes);
}

// As Accelerate under FSDP: hooks get no weights, and may add files.
TEST(AcceleratorWholeOfStage3, AreNotHandedToHooks) {
  const TemporaryFolder folder;
  run_parts({"", "tcp", 2, 3}, [&](PartsRun& run, int rank) {
    run.train(0);
    bool gives_weights = false;
    run.accelerator().register_save_state_pre_hook([&](StateToSave& state) {
      EXPECT_TRUE(state.weights.empty());
      if (rank != 0) return;
      state.files["own.txt"] = "mine";
      if (gives_weights) state.weights = {{{"other", torch::ones({2})}}};
    });
    run.accelerator().save_state(folder / "state");
    gives_weights = true;
    std::string error;
    try {
      run.accelerator().save_state(folder / "refused");
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_NE(error.find("a hook of save_state gave weights"), std::string::npos) << error;
  });
  EXPECT_TRUE(std::filesystem::exists(folder / "state/own.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder / "state/model.safetensors"));
}

}  // namespace
}  // namespace lockstep
