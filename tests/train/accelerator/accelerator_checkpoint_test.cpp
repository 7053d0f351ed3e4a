// Tests save_state and load_state: a program that is killed and restarted ends with the bits of an uninterrupted one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::int64_t kStateEpochs = 3;

struct StateCase {
  const char* name;
  int ranks;
  std::int64_t accumulation;
  bool of_libtorch;         // optimizer and scheduler
  std::int64_t stop_after;  // micro-batches
  friend std::ostream& operator<<(std::ostream& out, const StateCase& c) { return out << c.name; }
};

// State that a program itself keeps.
struct LossMean {
  double sum = 0;
  std::int64_t count = 0;
  std::string state_dict() const { return fmt::format("{:a} {}", sum, count); }
  void load_state_dict(const std::string& text) {
    char* end = nullptr;
    sum = std::strtod(text.c_str(), &end);
    count = std::atoll(end);
  }
};

AcceleratorOptions options_for(const Membership& membership, std::int64_t accumulation = 1) {
  AcceleratorOptions options;
  options.gradient_accumulation_steps = accumulation;
  options.ddp.process_group = make_communicator(membership.world_size == 1 ? "" : "shm", membership);
  return options;
}

DataLoader state_rows() {
  const at::Tensor x = torch::linspace(-1, 1, 41 * 4).reshape({41, 4});
  DataLoaderOptions options;
  options.batch_size = 3;
  options.shuffle = true;
  options.num_workers = 2;  // read ahead of the training
  return DataLoader(std::make_shared<TensorDataset>(Batch{{"x", x}, {"y", x.sum(1, true).sin()}}), options);
}

torch::nn::Sequential state_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::BatchNorm1d(16), torch::nn::Dropout(0.3),
                               torch::nn::Linear(16, 1));
}

// A program's training. @return  the state that must be equal bit for bit
std::string train_with_state(Accelerator& accelerator, bool of_libtorch, const std::string& load_from,
                             const std::function<void(std::int64_t)>& after_micro_batch) {
  torch::nn::Sequential net = state_net();
  Adam flat(net->parameters(), torch::optim::AdamOptions(0.05));
  torch::optim::Adam of_torch(net->parameters(), torch::optim::AdamOptions(0.05));
  torch::optim::Optimizer& adam = of_libtorch ? static_cast<torch::optim::Optimizer&>(of_torch) : flat;
  ScheduleOptions schedule;
  schedule.num_warmup_steps = 3;
  schedule.num_training_steps = 50;
  LambdaLR lambda(flat, make_schedule("linear", schedule));
  torch::optim::StepLR steps(of_torch, 4, 0.5);
  torch::optim::LRScheduler& rates = of_libtorch ? static_cast<torch::optim::LRScheduler&>(steps) : lambda;
  auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adam, state_rows(), rates);
  LossMean mean;
  accelerator.register_for_checkpointing(mean);
  set_seed(100, /*device_specific=*/true);
  torch::manual_seed(100 + accelerator.process_index());
  if (!load_from.empty()) accelerator.load_state(load_from);
  std::int64_t done = 0;
  for (std::int64_t epoch = loader.next_epoch(); epoch < kStateEpochs; ++epoch) {
    for (Batch& batch : loader) {
      const auto scope = accelerator.accumulate(model);
      const at::Tensor loss = (model(batch["x"]) - batch["y"]).pow(2).mean();
      accelerator.backward(loss);
      accelerator.clip_grad_norm_(net->parameters(), 0.5);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      mean.sum += loss.item<double>();
      ++mean.count;
      after_micro_batch(++done);
    }
  }
  NamedTensors end;
  for (const auto& item : net->named_parameters()) end.emplace_back(item.key(), item.value().detach());
  for (const auto& item : net->named_buffers()) end.emplace_back(item.key(), item.value());
  // The main process's state is used for all.
  if (accelerator.is_main_process())
    end.emplace_back("mean", torch::tensor({mean.sum, static_cast<double>(mean.count)}, torch::kDouble));
  return tensors_checksum(end);
}

class SavedState : public ::testing::TestWithParam<StateCase> {};

TEST_P(SavedState, KilledAndResumedEndsWithTheSameBits) {
  const StateCase& c = GetParam();
  const TemporaryFolder folder;
  const auto sum_file = [&](int rank) { return folder / ("sum" + std::to_string(rank)); };
  run_ranks_as_processes(c.ranks, [&](const Membership& membership) {
    Accelerator accelerator(options_for(membership, c.accumulation));
    const std::string sum = train_with_state(accelerator, c.of_libtorch, "", [](std::int64_t) {});
    write_file_atomically(sum_file(membership.rank), sum);
  });
  const auto ends = ranks_as_processes(c.ranks, [&](const Membership& membership) {
    Accelerator accelerator(options_for(membership, c.accumulation));
    train_with_state(accelerator, c.of_libtorch, "", [&](std::int64_t done) {
      if (done == 2) accelerator.save_state(folder / "state");  // the next save replaces it
      if (done != c.stop_after) return;
      accelerator.save_state(folder / "state");
      ::raise(SIGKILL);
    });
  });
  for (const RankOutcome& end : ends) EXPECT_EQ(end.signal, SIGKILL) << end.text;
  run_ranks_as_processes(c.ranks, [&](const Membership& membership) {
    Accelerator accelerator(options_for(membership, c.accumulation));
    const std::string sum = train_with_state(accelerator, c.of_libtorch, folder / "state", [](std::int64_t) {});
    EXPECT_EQ(sum, read_file(sum_file(membership.rank))) << "rank " << membership.rank;
  });
}

// An epoch has 14 micro-batches on one rank, and 7 on each of two.
INSTANTIATE_TEST_SUITE_P(Table, SavedState,
                         ::testing::Values(StateCase{"one_rank", 1, 1, false, 5},
                                           StateCase{"one_rank_in_a_window", 1, 4, false, 6},
                                           StateCase{"one_rank_of_libtorch", 1, 2, true, 17},
                                           StateCase{"at_an_epochs_last_batch", 1, 1, false, 14},
                                           StateCase{"two_ranks", 2, 1, false, 10},
                                           StateCase{"two_ranks_in_a_window", 2, 3, false, 5},
                                           StateCase{"two_ranks_of_libtorch", 2, 3, true, 9}),
                         [](const auto& test) { return std::string(test.param.name); });

using OneRank = std::function<void(Accelerator&)>;

void alone(const OneRank& body, const AcceleratorOptions& options = {}) {
  AcceleratorOptions mine = options;
  mine.ddp.process_group = make_communicator("", {});
  Accelerator accelerator(mine);
  body(accelerator);
}

std::string state_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AcceleratorCheckpoint, HasAcceleratesNames) {
  const TemporaryFolder folder;
  AcceleratorOptions options;
  options.project_config.project_dir = folder.path();
  options.project_config.automatic_checkpoint_naming = true;
  options.project_config.total_limit = 2;
  const auto names_in = [](const std::string& path) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.insert(entry.path().filename());
    return names;
  };
  alone(
      [&](Accelerator& accelerator) {
        torch::nn::Linear generator(2, 2), critic(2, 1);
        Adam first(generator->parameters(), torch::optim::AdamOptions(0.1));
        torch::optim::SGD second(critic->parameters(), 0.1);
        torch::optim::StepLR rates(second, 2);
        accelerator.prepare(generator, critic, first, second, rates);
        torch::nn::Linear average(1, 1);
        accelerator.register_for_checkpointing(average);
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(accelerator.save_state(), folder / "checkpoints/checkpoint_" + std::to_string(i));
        }
      },
      options);
  EXPECT_EQ(names_in(folder / "checkpoints"), (std::set<std::string>{"checkpoint_1", "checkpoint_2"}));
  EXPECT_EQ(names_in(folder / "checkpoints/checkpoint_2"),
            (std::set<std::string>{"model.safetensors", "model_1.safetensors", "optimizer.safetensors",
                                   "optimizer_1.pt", "scheduler.json", "custom_checkpoint_0.bin", "accelerator.json",
                                   "rng_state_0.safetensors", "manifest.json"}));
}

TEST(AcceleratorCheckpoint, GoesOnFromTheNewestWholeOne) {
  const TemporaryFolder folder;
  AcceleratorOptions options;
  options.project_config.project_dir = folder.path();
  options.project_config.automatic_checkpoint_naming = true;
  const auto set = [](torch::nn::Linear& net, double value) {
    const torch::NoGradGuard no_grad;
    net->weight.fill_(value);
  };
  torch::nn::Linear net(1, 1), average(1, 1);
  alone(
      [&](Accelerator& accelerator) {
        accelerator.prepare(net);
        accelerator.register_for_checkpointing(average);
        for (const int i : {0, 1, 2}) {
          set(net, i);
          set(average, 10 + i);
          accelerator.save_state();
        }
      },
      options);
  std::filesystem::resize_file(folder / "checkpoints/checkpoint_2/model.safetensors", 10);
  alone(
      [&](Accelerator& accelerator) {
        accelerator.prepare(net);
        accelerator.register_for_checkpointing(average);
        accelerator.load_state();
        EXPECT_EQ(net->weight.item<double>(), 1);
        EXPECT_EQ(average->weight.item<double>(), 11);
        EXPECT_EQ(accelerator.save_state(), folder / "checkpoints/checkpoint_2");
        accelerator.load_state(folder / "checkpoints/checkpoint_0");
        EXPECT_EQ(net->weight.item<double>(), 0);
        const std::string damaged = folder / "checkpoints/checkpoint_0/custom_checkpoint_0.bin";
        std::ofstream(damaged, std::ios::in | std::ios::out).put('x');
        EXPECT_NE(state_error([&] {
                    accelerator.load_state(folder / "checkpoints/checkpoint_0");
                  }).find("custom_checkpoint_0.bin"),
                  std::string::npos);
        EXPECT_EQ(net->weight.item<double>(), 0);
      },
      options);
}

TEST(AcceleratorCheckpoint, SaysWhyItCannot) {
  const TemporaryFolder folder;
  torch::nn::Linear net(2, 1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  alone([&](Accelerator& accelerator) {
    accelerator.prepare(net, sgd);
    EXPECT_NE(state_error([&] { accelerator.save_state(); }).find("automatic_checkpoint_naming"), std::string::npos);
    EXPECT_NE(state_error([&] { accelerator.load_state(folder / "none"); }).find("there is no checkpoint in"),
              std::string::npos);
    std::filesystem::create_directory(folder / "empty");
    EXPECT_EQ(accelerator.save_state(folder / "empty/"), folder / "empty");
    std::filesystem::create_directory(folder / "logs");
    write_file_atomically(folder / "logs/metrics.jsonl", "{}\n");
    EXPECT_NE(state_error([&] { accelerator.save_state(folder / "logs"); }).find("is not a checkpoint"),
              std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(folder / "logs/metrics.jsonl"));
    accelerator.save_state(folder / "state");
  });
  alone([&](Accelerator& accelerator) {
    accelerator.prepare(net);
    EXPECT_NE(
        state_error([&] { accelerator.load_state(folder / "state"); }).find("has 1 optimizers, but here there are 0"),
        std::string::npos);
  });
  alone([&](Accelerator& accelerator) {
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.1));
    accelerator.prepare(net, adam);
    EXPECT_NE(state_error([&] { accelerator.load_state(folder / "state"); }).find("was one of LibTorch's"),
              std::string::npos);
  });
  alone([&](Accelerator& accelerator) {
    torch::nn::Linear other(3, 1);
    torch::optim::SGD of_other(other->parameters(), 0.1);
    accelerator.prepare(other, of_other);
    EXPECT_NE(state_error([&] { accelerator.load_state(folder / "state"); }).find("\"weight\" is F32 of shape [1, 2]"),
              std::string::npos);
  });
}

TEST(AcceleratorCheckpoint, AnotherNumberOfRanksMustBeAskedFor) {
  const TemporaryFolder folder;
  run_ranks_as_processes(2, [&](const Membership& membership) {
    Accelerator accelerator(options_for(membership));
    train_with_state(accelerator, false, "", [&](std::int64_t done) {
      if (done == 4) accelerator.save_state(folder / "state");
    });
  });
  alone([&](Accelerator& accelerator) {
    auto net = state_net();
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.05));
    ScheduleOptions schedule;
    schedule.num_training_steps = 50;
    LambdaLR lambda(adam, make_schedule("linear", schedule));
    auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, adam, state_rows(), lambda);
    LossMean mean;
    accelerator.register_for_checkpointing(mean);
    EXPECT_NE(state_error([&] { accelerator.load_state(folder / "state"); }).find("was written by 2 ranks"),
              std::string::npos);
    LoadStateOptions options;
    options.allow_world_size_change = true;
    accelerator.load_state(folder / "state", options);
    EXPECT_EQ(loader.state().position, 2 * 4 * 3);  // the number that both ranks had taken
    EXPECT_EQ(lambda.last_step(), 4);
    EXPECT_EQ(mean.count, 4);
  });
}

}  // namespace
}  // namespace lockstep
