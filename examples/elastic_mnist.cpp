// MNIST in a loop of its own whose ranks may be killed while it trains: the others continue, with the same bits.
//   lockstep run --nproc-per-node 3 --max-restarts 2 elastic_mnist --data mnist
//   pkill -KILL -o -x elastic_mnist      in another terminal: the oldest of them, rank 0
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "device.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/mnist.h"
#include "lockstep/elastic/on_rank_change.h"
#include "lockstep/models/convnet.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string data = "data/digits";
  std::int64_t shards = 4, batch_size = 25, steps = 200;
  double lr = 1e-3;
};

// The samples of a shard in a step: a function of these two, so it does not matter which rank asks.
class Samples {
 public:
  Samples(const Arguments& args, std::shared_ptr<const ls::Dataset> data)
      : batch_size_(args.batch_size), data_(std::move(data)) {
    ls::DistributedSamplerOptions share;
    share.num_replicas = args.shards;
    for (std::int64_t shard = 0; shard < args.shards; ++shard) {
      share.rank = shard;
      of_shards_.push_back(std::make_unique<ls::DistributedSampler>(data_->size(), share));
    }
  }

  ls::Batch of(std::int64_t step, std::int64_t shard) const {
    const ls::DistributedSampler& sampler = *of_shards_.at(static_cast<std::size_t>(shard));
    const std::int64_t steps_of_epoch = std::max<std::int64_t>(1, sampler.size() / batch_size_);
    ls::SamplerState place = sampler.state();
    place.epoch = step / steps_of_epoch;
    return data_->get_batch(sampler.indices(place, step % steps_of_epoch * batch_size_, batch_size_));
  }

 private:
  std::int64_t batch_size_;
  std::shared_ptr<const ls::Dataset> data_;
  std::vector<std::unique_ptr<ls::DistributedSampler>> of_shards_;
};

double accuracy(ls::ConvNet& model, const ls::Dataset& test) {
  torch::NoGradGuard no_grad;
  model->eval();
  std::vector<std::int64_t> everything(static_cast<std::size_t>(test.size()));
  std::iota(everything.begin(), everything.end(), 0);
  ls::Batch all = test.get_batch(everything);
  return 100 * model->forward(all["images"]).argmax(1).eq(all["labels"]).to(torch::kDouble).mean().item<double>();
}

void train(const Arguments& args) {
  const std::shared_ptr<const ls::Dataset> data = ls::mnist(args.data, ls::Split::Train);
  const Samples samples(args, data);
  torch::manual_seed(42);
  ls::ConvNet model;
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(args.lr));

  // What a process that takes a lost rank's place gets from another one
  double loss_of_step = 0;
  ls::ElasticState state;
  state.tensors = model->parameters();
  for (const torch::Tensor& buffer : model->buffers()) state.tensors.push_back(buffer);
  state.optimizers = {&optimizer};
  state.data = {data};  // ranks compare what they have read

  auto run = ls::on_rank_change(state, [&](const std::shared_ptr<ls::Communicator>& group) {
    // Called again after each change of ranks: all that belongs to a group is made here
    say_that_devices_are_unused("on_rank_change", group->rank());
    if (group->rank() == 0) std::printf("Ranks in all: %d\n", group->world_size());
    ls::DistributedDataParallelOptions options;
    options.process_group = group;
    options.virtual_shards = args.shards;
    auto ddp = std::make_unique<ls::DistributedDataParallel<ls::ConvNet>>(model, options);
    ddp->fuse(optimizer);
    return ddp;
  });
  while (run.step() < args.steps) {
    run.make_step([&](auto& ddp) {
      ddp->run_shards(static_cast<std::uint64_t>(run.step()), [&](std::int64_t shard) {
        ls::Batch batch = samples.of(run.step(), shard);
        const torch::Tensor loss = torch::nn::functional::cross_entropy((*ddp)(batch["images"]), batch["labels"]);
        loss.backward();
        if (shard == 0) loss_of_step = loss.item<double>();
      });
      optimizer.step();
      if (run.group()->rank() == 0 && (run.step() + 1) % 50 == 0) {
        std::printf("Step [%ld/%ld], Loss: %.4f\n", static_cast<long>(run.step() + 1), static_cast<long>(args.steps),
                    loss_of_step);
      }
    });
  }
  run.finish();
  if (run.group()->rank() == 0) {
    std::printf("Accuracy on the test images: %.2f %%\n", accuracy(model, *ls::mnist(args.data, ls::Split::Test)));
  }
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a ConvNet on MNIST, or on any IDX files in its form, on ranks that may be lost and replaced.",
               "elastic_mnist");
  app.option_defaults()->always_capture_default();
  app.footer("Example: lockstep run --nproc-per-node 3 --max-restarts 2 elastic_mnist --data mnist");
  app.add_option("--data", args.data, "folder of IDX files: train-images-idx3-ubyte[.gz] and so on");
  app.add_option("--shards", args.shards, "virtual shards of a step, at least one for each rank")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch_size", args.batch_size, "samples per shard and step")->check(CLI::Range(1, 1 << 20));
  app.add_option("--steps", args.steps, "updates in all")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate of Adam")->check(CLI::NonNegativeNumber);
  return run_example(app, argc, argv, [&] { train(args); });
}
