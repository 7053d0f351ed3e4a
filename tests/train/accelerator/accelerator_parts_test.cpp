// save_state and load_state with weights in the ranks' parts, of any stage and for any number of ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/accelerator/parts_run.h"

namespace lockstep {
namespace {

const PartsWay kPartsWays[] = {
    {"two_apart_stage_3", "tcp", 2, 3},   {"three_apart_stage_3", "tcp", 3, 3},
    {"two_hosts_stage_3", "", 4, 3, 2},   {"two_hosts_stage_2", "", 4, 2, 2},
    {"three_apart_stage_1", "tcp", 3, 1}, {"two_shared_stage_2", "thread", 2, 2},
    {"two_not_fused", "thread", 2, 0},    {"one", "", 1, 0},
};

class AcceleratorParts : public ::testing::TestWithParam<PartsWay> {};

INSTANTIATE_TEST_SUITE_P(Ways, AcceleratorParts, ::testing::ValuesIn(kPartsWays),
                         [](const auto& test) { return std::string(test.param.name); });

// Both types of state dict, and a rank that was saved loads what any other way has saved.
TEST_P(AcceleratorParts, AreLoadedInEveryWay) {
  const PartsWay& saver = GetParam();
  const TemporaryFolder folder;
  std::map<std::string, at::Tensor> saved;
  run_parts(saver, [&](PartsRun& run, int rank) {
    for (const int step : {0, 1}) run.train(step);
    run.accelerator().save_state(folder / "parts", in_parts());
    run.accelerator().save_state(folder / "whole");
    auto all = run.everything();
    if (rank == 0) saved = std::move(all);
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "parts/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "whole/model.safetensors"));
  for (const PartsWay& loader : kPartsWays) {
    SCOPED_TRACE(loader.name);
    run_parts(loader, [&](PartsRun& run, int rank) {
      for (const char* name : {"parts", "whole"}) {
        run.train(5 + rank);  // something else
        LoadStateOptions how;
        how.allow_world_size_change = true;
        run.accelerator().load_state(folder / name, how);
        expect_equal_parts(run.everything(), saved);
      }
    });
  }
}

TEST_P(AcceleratorParts, ContinueWithTheBitsOfATrainingThatWasNotStopped) {
  const TemporaryFolder folder;
  run_parts(GetParam(), [&](PartsRun& run, int) {
    for (const int step : {0, 1}) run.train(step);
    run.accelerator().save_state(folder / "state", in_parts());
    for (const int step : {2, 3}) run.train(step);
    const auto undisturbed = run.everything();
    run.backward(4);  // gradients that the way back drops
    run.accelerator().load_state(folder / "state");
    for (const int step : {2, 3}) run.train(step);
    expect_equal_parts(run.everything(), undisturbed);
  });
}

// Every element once, and no rank has or writes more than its share.
TEST(AcceleratorPartsOfStage3, AreNotGathered) {
  const PartsWay way{"", "tcp", 3, 3};
  const TemporaryFolder folder;
  run_parts(way, [&](PartsRun& run, int rank) {
    std::int64_t all = 0;
    for (const at::Tensor& parameter : run.net()->parameters()) all += 4 * parameter.numel();
    run.train(0);
    run.train(1);
    const std::int64_t peak = run.ddp().fused_step().peak_weight_bytes();
    EXPECT_LT(peak, all);
    run.accelerator().save_state(folder / "state", in_parts());
    run.accelerator().save_state(folder / "whole");
    run.accelerator().save_model(run.model(), folder / "model");
    for (const char* name : {"state", "whole"}) run.accelerator().load_state(folder / name);
    EXPECT_EQ(run.ddp().fused_step().peak_weight_bytes(), peak);
    const std::string own = fmt::format("state/model_shard-0000{}-of-00003.safetensors", rank + 1);
    EXPECT_LT(std::filesystem::file_size(folder / own), static_cast<std::uintmax_t>(all / 2 + 4096));
  });
}

// A save has what was written after the last step, while weights are there and when they are freed again.
TEST(AcceleratorPartsOfStage3, HaveWhatTheProgramWrote) {
  const PartsWay way{"", "tcp", 2, 3};
  for (const bool reshards : {false, true}) {
    const TemporaryFolder folder;
    run_parts(way, [&](PartsRun& run, int rank) {
      run.train(0);
      run.ddp().fused_step().unshard();
      {
        const torch::NoGradGuard no_grad;
        for (at::Tensor& parameter : run.net()->parameters()) parameter.mul_(0.5);
        run.net()->parameters()[0].data().add_(1);
      }
      if (reshards) run.ddp().fused_step().reshard();
      run.accelerator().save_state(folder / "state", in_parts());
      const auto written = run.everything();
      run.train(1);
      run.accelerator().load_state(folder / "state");
      const auto loaded = run.everything();
      if (rank == 0) expect_equal_parts(loaded, written);  // whose buffers are saved
    });
  }
}

std::string parts_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AcceleratorPartsErrors, NameWhatDoesNotFit) {
  const TemporaryFolder folder;
  run_parts({"", "tcp", 2, 3}, [&](PartsRun& run, int) {
    run.train(0);
    run.accelerator().save_state(folder / "state", in_parts());
  });
  run_parts({"", "tcp", 2, 3}, [&](PartsRun& run, int rank) {
    run.accelerator().register_save_state_pre_hook([&](StateToSave& state) {
      if (rank == 0) state.weights = {{{"other", torch::ones({2})}}};
    });
    const std::string error = parts_error([&] { run.accelerator().save_state(folder / "hooked", in_parts()); });
    EXPECT_NE(error.find("a hook of save_state gave weights"), std::string::npos) << error;
  });
  run_parts({"", "thread", 2, 0}, [&](PartsRun& run, int) {
    run.ddp().register_comm_hook(noop_hook());
    const std::string error = parts_error([&] { run.accelerator().save_state(folder / "apart", in_parts()); });
    EXPECT_NE(error.find("lets the ranks' weights differ"), std::string::npos) << error;
  });
  // A model without the last layer: loading what it has would leave out what it lacks in silence.
  run_ranks_as_threads(2, [&](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("tcp", membership);
    Accelerator accelerator(options);
    torch::nn::Sequential shorter(torch::nn::Linear(kPartsWidth, kPartsWidth), torch::nn::BatchNorm1d(kPartsWidth));
    Adam adam(shorter->parameters(), torch::optim::AdamOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(shorter, adam);
    FuseOptions how;
    how.stage = 3;
    model.ddp().fuse(adam, how);
    const std::string error = parts_error([&] { accelerator.load_state(folder / "state"); });
    EXPECT_NE(error.find("the checkpoint has 23 tensors, the model 7"), std::string::npos) << error;
    accelerator.wait_for_everyone();
  });
}

// An object of a checkpoint that is loaded after the weights.
struct WhenLoaded {
  std::function<void()> act = [] {};
  std::string state_dict() const { return "nothing"; }
  void load_state_dict(const std::string& /*text*/) const { act(); }
};

void flip_last_byte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto flipped = static_cast<char>(file.get() ^ 0x80);
  file.seekp(-1, std::ios::end);
  file.put(flipped);
}

// Hosts may see other files under one path. Here rank 1 reads its file while another byte is in it.
TEST(AcceleratorPartsErrors, NameARankThatHasReadSomethingElse) {
  const TemporaryFolder folder;
  const std::string path = folder / "state/model_shard-00002-of-00002.safetensors";
  std::vector<WhenLoaded> objects(2);
  run_parts({"", "tcp", 2, 3}, [&](PartsRun& run, int rank) {
    WhenLoaded& object = objects[static_cast<std::size_t>(rank)];
    run.accelerator().register_for_checkpointing(object);
    run.train(0);
    run.accelerator().save_state(folder / "state", in_parts());
    run.accelerator().load_state(folder / "state");
    if (rank == 1) {
      run.accelerator().register_load_state_pre_hook([&](StateToLoad&) { flip_last_byte(path); });
      object.act = [&] { flip_last_byte(path); };
    }
    const std::string error = parts_error([&] { run.accelerator().load_state(folder / "state"); });
    EXPECT_NE(error.find("rank 1 has read something other"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace lockstep
