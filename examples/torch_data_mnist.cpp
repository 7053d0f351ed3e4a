// A LibTorch program on several ranks: a torch::data loader, StepLR, clipping, a file that rank 0 writes.
//   lockstep run --nproc-per-node 2 torch_data_mnist --data FOLDER
// docs/reference/torch-data.md shows which of its lines a program for one process does not need.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/mnist.h"
#include "lockstep/data/torch_data_sampler.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "run_example.h"

namespace ls = lockstep;

struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 5).stride(2)));
    fc = register_module("fc", torch::nn::Linear(8 * 12 * 12, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::log_softmax(fc(torch::relu(conv(x)).flatten(1)), 1); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear fc{nullptr};
};

// IDX files of any size; torch::data::datasets::MNIST reads only MNIST's own.
class Images : public torch::data::datasets::Dataset<Images> {
  using Size = decltype(std::declval<const torch::data::datasets::TensorDataset&>().size());  // an optional

 public:
  Images(const std::string& folder, ls::Split split) : images_(ls::mnist(folder, split)) {}
  torch::data::Example<> get(std::size_t index) override {
    ls::Batch sample = images_->get(static_cast<std::int64_t>(index));
    return {sample["images"], sample["labels"]};
  }
  Size size() const override { return static_cast<std::size_t>(images_->size()); }

 private:
  std::shared_ptr<const ls::Dataset> images_;
};

struct Arguments {
  std::string data = "data/digits", weights;
  int epochs = 2;
  std::size_t batch_size = 50, workers = 2;
};

// Each rank evaluates its share of the test images; the counts are added up.
double accuracy(Net& model, const Arguments& args, torch::Device device) {
  const torch::NoGradGuard no_grad;
  model.eval();
  Images images(args.data, ls::Split::Test);
  const auto count = static_cast<std::int64_t>(*images.size());
  auto loader = torch::data::make_data_loader(
      images.map(torch::data::transforms::Stack<>()),
      ls::TorchDataSampler(std::make_shared<ls::ExactDistributedSampler>(count)), args.batch_size);
  torch::Tensor correct = zero_count(device);
  for (auto& batch : *loader) {
    correct += model.forward(batch.data.to(device)).argmax(1).eq(batch.target.to(device)).sum();
  }
  ls::default_group()->all_reduce(correct);
  return 100.0 * correct.item<double>() / static_cast<double>(count);
}

void train(const Arguments& args) {
  ls::init_process_group();
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other
  torch::manual_seed(1);
  auto model = std::make_shared<Net>();
  if (!args.weights.empty() && std::filesystem::exists(args.weights)) torch::load(model, args.weights);
  model->to(device);
  ls::DistributedDataParallel ddp(model);

  Images images(args.data, ls::Split::Train);
  ls::TorchDataSampler sampler(static_cast<std::int64_t>(*images.size()));
  auto loader =
      torch::data::make_data_loader(images.map(torch::data::transforms::Stack<>()), sampler,
                                    torch::data::DataLoaderOptions().batch_size(args.batch_size).workers(args.workers));

  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/1, /*gamma=*/0.7);
  for (int epoch = 1; epoch <= args.epochs; ++epoch) {
    sampler.set_epoch(epoch);
    ddp.train();
    double last_loss = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      auto loss = torch::nll_loss(ddp(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      torch::nn::utils::clip_grad_norm_(ddp.parameters(), 1.0);
      optimizer.step();
      last_loss = loss.item<double>();
    }
    scheduler.step();
    const double percent = accuracy(*model, args, device);
    if (ls::get_rank() == 0) std::printf("Epoch %d: loss %.4f, accuracy %.2f %%\n", epoch, last_loss, percent);
  }
  if (ls::get_rank() == 0 && !args.weights.empty()) torch::save(model, args.weights);
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a small network on MNIST, or on any IDX files in its form, by a loader of torch::data.",
               "torch_data_mnist");
  app.option_defaults()->always_capture_default();
  app.footer("Example:\n  lockstep run --nproc-per-node 2 torch_data_mnist --data mnist --weights net.pt");
  app.add_option("--data", args.data, "folder of IDX files: train-images-idx3-ubyte[.gz] and so on");
  app.add_option("--weights", args.weights, "file of the weights: read if it exists, written by rank 0");
  app.add_option("--epochs", args.epochs, "number of epochs to run")->check(CLI::Range(1, 1000000));
  app.add_option("--batch_size", args.batch_size, "samples per rank and step")->check(CLI::Range(1, 1000000));
  app.add_option("--workers", args.workers, "threads that read ahead")->check(CLI::Range(0, 64));
  return run_example(app, argc, argv, [&] { train(args); });
}
