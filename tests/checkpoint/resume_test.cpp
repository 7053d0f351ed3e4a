// Tests that a stopped and resumed training gives the weights of an uninterrupted one, bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/generators.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::int64_t kResumeSamples = 60, kResumeBatch = 3, kLastStep = 14;

struct ResumeCase {
  const char* name;
  bool fuse;
  int world_size;
  friend std::ostream& operator<<(std::ostream& out, const ResumeCase& c) { return out << c.name; }
};

// A complete small training: dropout draws from the generator, the sampler shuffles, the schedule warms up.
class ResumeTraining {
 public:
  ResumeTraining(const std::shared_ptr<Communicator>& group, bool fuse)
      : group_(group),
        model_(make_model()),
        ddp_(model_, options_on(group)),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(0.05)),
        scheduler_(optimizer_, make_schedule("linear", schedule_options())),
        sampler_(std::make_shared<DistributedSampler>(kResumeSamples, sampler_options())),
        loader_(dataset(), loader_options(), sampler_) {
    if (fuse) ddp_.fuse(optimizer_);
    torch::manual_seed(100 + group->rank());
  }

  CheckpointContent content() {
    CheckpointContent content;
    content.step = step_;
    content.weights = weights();
    content.files["scheduler.json"] = schedule_json(scheduler_.state());
    content.optimizer = {optimizer_.named_state(ddp_.named_parameters()), optimizer_.is_sharded(),
                         optimizer_.group_options()};
    content.generators = generators_.state();
    content.samplers["train"] = loader_.state();
    return content;
  }

  void resume(const Checkpoint& checkpoint, bool allow_remap) {
    step_ = checkpoint.step();
    group_->barrier();
    checkpoint.load_weights(weights());
    group_->barrier();
    check_replicas_equal(*group_, weights(), "weights");
    const OptimizerContent optimizer = checkpoint.optimizer();
    optimizer_.load_named_state(ddp_.named_parameters(), optimizer.state);
    optimizer_.load_group_options(optimizer.groups);
    scheduler_.load_state(parse_lambda_lr(checkpoint.file("scheduler.json"), "scheduler.json"));
    const ResumeState mine = resume_state(checkpoint, group_->rank(), group_->world_size(), allow_remap);
    loader_.load_state(mine.samplers.at("train"));
    epoch_ = mine.samplers.at("train").epoch;
    if (!mine.generators.empty()) generators_.load_state(mine.generators);
  }

  // Trains up to step `last`; `after_step` is called after each step.
  void train(std::int64_t last, const std::function<void(std::int64_t)>& after_step) {
    for (; step_ < last; ++epoch_) {
      sampler_->set_epoch(epoch_);
      for (Batch& batch : loader_) {
        ddp_(batch.at("x")).sub(batch.at("y")).pow(2).mean().backward();
        optimizer_.step();
        optimizer_.zero_grad();
        scheduler_.step();
        after_step(++step_);
        if (step_ == last) return;
      }
    }
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (const auto& item : model_->named_parameters()) all.emplace_back(item.key(), item.value().detach());
    return all;
  }

 private:
  static torch::nn::Sequential make_model() {
    torch::manual_seed(1);
    return torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::ReLU(), torch::nn::Dropout(0.3),
                                 torch::nn::Linear(16, 1));
  }
  static DistributedDataParallelOptions options_on(const std::shared_ptr<Communicator>& group) {
    DistributedDataParallelOptions options;
    options.process_group = group;
    return options;
  }
  static ScheduleOptions schedule_options() {
    ScheduleOptions options;
    options.num_warmup_steps = 3;
    options.num_training_steps = kLastStep + 4;
    return options;
  }
  DistributedSamplerOptions sampler_options() const {
    DistributedSamplerOptions options;
    options.num_replicas = group_->world_size();
    options.rank = group_->rank();
    options.seed = 5;
    return options;
  }
  static DataLoaderOptions loader_options() {
    DataLoaderOptions options;
    options.batch_size = kResumeBatch;
    options.num_workers = 2;  // read ahead of the training
    return options;
  }
  static std::shared_ptr<const Dataset> dataset() {
    const torch::Tensor x = torch::linspace(-1, 1, kResumeSamples * 4).reshape({kResumeSamples, 4});
    return std::make_shared<TensorDataset>(Batch{{"x", x}, {"y", x.sum(1, true).sin()}});
  }

  std::shared_ptr<Communicator> group_;
  torch::nn::Sequential model_;
  DistributedDataParallel<torch::nn::Sequential> ddp_;
  Adam optimizer_;
  LambdaLR scheduler_;
  std::shared_ptr<DistributedSampler> sampler_;
  DataLoader loader_;
  Generators generators_;
  std::int64_t step_ = 0;
  std::int64_t epoch_ = 0;
};

class Resume : public ::testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, GivesTheWeightsOfTheRunThatWasNotStopped) {
  const TemporaryFolder folder;
  const ResumeCase& c = GetParam();
  // Saves after every step, in the background, while training continues.
  run_ranks_as_processes(c.world_size, [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("shm", membership);
    ResumeTraining training(group, c.fuse);
    CheckpointWriterOptions options;
    options.output_dir = folder / "out";
    CheckpointWriter writer(options, group);
    training.train(kLastStep, [&](std::int64_t) { writer.save(training.content()); });
    writer.wait();
    if (group->rank() == 0) write_file_atomically(folder / "sum", tensors_checksum(training.weights()));
  });
  for (const std::int64_t stop : {1, 6, 10, 13}) {  // an epoch has 10 steps of two ranks
    run_ranks_as_processes(c.world_size, [&](const Membership& membership) {
      const std::shared_ptr<Communicator> group = make_communicator("shm", membership);
      ResumeTraining training(group, c.fuse);
      training.resume(open_checkpoint(checkpoint_path(folder / "out", stop), *group), false);
      training.train(kLastStep, [](std::int64_t) {});
      EXPECT_EQ(tensors_checksum(training.weights()), read_file(folder / "sum")) << "stopped after step " << stop;
    });
  }
}

TEST_P(Resume, GoesOnInAnotherWorldSizeWhenAsked) {
  const TemporaryFolder folder;
  const ResumeCase& c = GetParam();
  run_ranks_as_processes(c.world_size, [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("shm", membership);
    ResumeTraining training(group, c.fuse);
    training.train(4, [](std::int64_t) {});
    CheckpointWriterOptions options;
    options.output_dir = folder / "out";
    CheckpointWriter(options, group).save(training.content());
  });
  for (const int world_size : {1, 3}) {
    run_ranks_as_processes(world_size, [&](const Membership& membership) {
      const std::shared_ptr<Communicator> group = make_communicator(world_size == 1 ? "" : "shm", membership);
      ResumeTraining training(group, c.fuse && world_size > 1);
      training.resume(find_newest_checkpoint(folder / "out", *group).newest.value(), true);
      training.train(8, [](std::int64_t) {});
      check_replicas_equal(*group, training.weights(), "weights");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Resume, ::testing::Values(ResumeCase{"plain", false, 2}, ResumeCase{"fused", true, 2}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
