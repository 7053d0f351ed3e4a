// The lecture's classifier: an MLP with four hidden layers tells attacks from normal connections in NSL-KDD.
//   kdd_mlp --train KDDTrain+.txt --test KDDTest+.txt                     one device
//   kdd_mlp --train KDDTrain+.txt --test KDDTest+.txt --replicas 2        DataParallel
//   lockstep run --nproc-per-node 2 kdd_mlp --train …                     DistributedDataParallel
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>

#include "device.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/nsl_kdd.h"
#include "lockstep/models/mlp.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/data_parallel.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string train, test;
  int epochs = 3, replicas = 1;
  std::int64_t batch_size = 128;
  double lr = 1e-3;
};

std::vector<ls::ReplicaDevice> devices_of(int replicas) {
  std::vector<ls::ReplicaDevice> devices;
  for (int i = 0; i < replicas; ++i) devices.emplace_back(i);
  return devices;
}

double accuracy(ls::Mlp& model, const ls::TensorDataset& test, torch::Device device) {
  torch::NoGradGuard no_grad;
  model->eval();
  const auto prediction = model->forward(test.fields().at("features").to(device)).argmax(1).cpu();
  return 100.0 * prediction.eq(test.fields().at("labels")).to(torch::kDouble).mean().item<double>();
}

void train(const Arguments& args) {
  // Under a launcher: one of several ranks
  const bool launched = ls::env_string("RANK").has_value();
  if (launched && args.replicas > 1) {
    throw ls::Error("--replicas under a launcher, whose ranks are the replicas", "command line",
                    "leave one of them out");
  }
  if (launched) ls::init_process_group();
  ls::DistributedSamplerOptions share;
  share.num_replicas = launched ? ls::get_world_size() : 1;
  share.rank = launched ? ls::get_rank() : 0;
  torch::manual_seed(42);
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other

  // The data: the scaling of columns comes from the training file, and is applied to the test file
  const ls::CsvData data = ls::read_nsl_kdd(args.train);
  const auto test = ls::read_nsl_kdd(args.test, data.encoding);
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  auto sampler = std::make_shared<ls::DistributedSampler>(data.dataset->size(), share);
  ls::DataLoader loader(data.dataset, options, sampler);
  const long total_step = static_cast<long>(loader.size());

  // The model, and what runs it
  ls::Mlp mynn;
  mynn->to(device);
  std::function<torch::Tensor(const torch::Tensor&)> forward = [&](const auto& x) { return mynn->forward(x); };
  std::optional<ls::DistributedDataParallel<ls::Mlp>> ddp;
  std::optional<ls::DataParallel<ls::Mlp>> parallel;
  if (launched) {
    ddp.emplace(mynn);
    forward = [&](const auto& x) { return (*ddp)(x); };
  } else if (args.replicas > 1) {
    parallel.emplace(mynn, devices_of(args.replicas));
    forward = [&](const auto& x) { return (*parallel)(x); };
  }
  ls::Adam optimizer(mynn->parameters(), torch::optim::AdamOptions(args.lr));

  const auto start_time = std::chrono::steady_clock::now();
  for (int epoch = 0; epoch < args.epochs; ++epoch) {
    sampler->set_epoch(epoch);
    long batch_id = 0;
    for (auto& batch : loader) {
      move_to(batch, device);
      // pass input data to get the prediction outputs by the current model
      auto prediction = forward(batch["features"]);
      // compare prediction and the actual output label and compute the loss
      auto loss = torch::nn::functional::cross_entropy(prediction, batch["labels"]);
      // compute the gradient
      optimizer.zero_grad();
      loss.backward();
      // update parameters
      optimizer.step();
      require_number(loss, epoch, batch_id + 1);
      if (++batch_id == total_step && share.rank == 0) {
        std::printf("Epoch [%d/%d], Step [%ld/%ld], Loss: %.4f\n", epoch + 1, args.epochs, batch_id, total_step,
                    loss.item<double>());
      }
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start_time;
  if (share.rank == 0) {
    const double attacks = 100.0 * test->fields().at("labels").to(torch::kDouble).mean().item<double>();
    std::printf("%.3f ms per batch of %ld\n", took.count() / static_cast<double>(args.epochs * total_step),
                static_cast<long>(args.batch_size));
    std::printf("Accuracy on the %ld test records: %.2f %%, where the majority guess reaches %.2f %%\n",
                static_cast<long>(test->size()), accuracy(mynn, *test, device), std::max(attacks, 100 - attacks));
  }
  if (launched) ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains an MLP with four hidden layers to tell attacks from normal connections in NSL-KDD.", "kdd_mlp");
  app.option_defaults()->always_capture_default();
  app.add_option("--train", args.train, "file of NSL-KDD to train on, plain or gzip")->required();
  app.add_option("--test", args.test, "file of NSL-KDD to measure the accuracy on")->required();
  app.add_option("--replicas", args.replicas, "replicas of DataParallel; not under `lockstep run`")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--batch_size", args.batch_size, "records per step (and rank)")->check(CLI::Range(1, 1 << 30));
  app.add_option("--epochs", args.epochs, "how often to go through the training file")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate of Adam");
  app.footer(
      "Examples:\n  kdd_mlp --train KDDTrain+.txt --test KDDTest+.txt --replicas 2\n"
      "  lockstep run --nproc-per-node 2 kdd_mlp --train KDDTrain+.txt --test KDDTest+.txt");
  return run_example(app, argc, argv, [&] { train(args); });
}
