// The lecture's program: several nodes, each with its share of MNIST, train one ConvNet in step. In two terminals:
//   ddp_mnist -w 2 -nr 0 --data FOLDER
//   ddp_mnist -w 2 -nr 1 --data FOLDER
// or at once: lockstep run --nproc-per-node 2 ddp_mnist --data FOLDER, or mpirun -np 2 ddp_mnist --data FOLDER
// On CUDA devices: -g N takes number N. Under a launcher each rank takes the one of its LOCAL_RANK; -g -1 is the CPU.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>

#include "device.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/mnist.h"
#include "lockstep/models/convnet.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "require_number.h"

namespace ls = lockstep;

struct Arguments {
  int world_size = 1, nr = 0, epochs = 2;
  std::optional<int> gpu;
  std::string master_addr = "127.0.0.1", master_port = "8888", data = "data/digits", optimizer = "sgd", backend;
  double lr = 1e-4;
  std::int64_t batch_size = 100;
};

// The device of -g, or of LOCAL_RANK under a launcher
torch::Device device_of(const Arguments& args) {
  if (!args.gpu) return ls::env_string("LOCAL_RANK") ? ls::use_local_device() : torch::Device(torch::kCPU);
  if (*args.gpu < 0) return {torch::kCPU};
  const auto devices = static_cast<int>(torch::cuda::device_count());
  if (*args.gpu >= devices) {
    throw ls::Error(
        "there is no CUDA device " + std::to_string(*args.gpu) + ": this process sees " + std::to_string(devices), "-g",
        "lockstep env shows the devices; -g -1 is the CPU");
  }
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(*args.gpu)};
}

double accuracy(ls::ConvNet& model, const std::shared_ptr<const ls::Dataset>& test, torch::Device device, int rank,
                int world_size) {
  torch::NoGradGuard no_grad;
  model->eval();
  ls::ExactDistributedSamplerOptions share;
  share.num_replicas = world_size;
  share.rank = rank;
  ls::DataLoaderOptions options;
  options.batch_size = 500;
  ls::DataLoader loader(test, options, std::make_shared<ls::ExactDistributedSampler>(test->size(), share));
  torch::Tensor correct = zero_count(device);
  for (auto& batch : loader) {
    move_to(batch, device);
    correct += model->forward(batch["images"]).argmax(1).eq(batch["labels"]).sum();
  }
  ls::default_group()->all_reduce(correct);
  return 100.0 * correct.item<double>() / static_cast<double>(test->size());
}

void train(const Arguments& args) {
  // Setup the communication with other processes
  const int rank = args.nr;
  const torch::Device device = device_of(args);
  const c10::DeviceGuard current(device);
  std::printf("hello! Node # %d is being initialized! Awaiting all nodes to join. \n", rank);
  ls::ProcessGroupOptions group;
  group.init_method = "tcp://" + args.master_addr + ":" + args.master_port;
  if (ls::env_string("RANK")) group.init_method = "env://";  // under a launcher
  group.backend = args.backend;
  group.world_size = args.world_size;
  group.rank = rank;
  ls::init_process_group(group);
  std::printf("hello! Node # %d is running!\n", rank);

  torch::manual_seed(0);

  // Loading a slice of the dataset
  auto train_dataset = ls::mnist(args.data, ls::Split::Train);
  auto test_dataset = ls::mnist(args.data, ls::Split::Test);
  ls::DistributedSamplerOptions share;
  share.num_replicas = args.world_size;
  share.rank = rank;
  auto train_sampler = std::make_shared<ls::DistributedSampler>(train_dataset->size(), share);

  // Create model and WRAP IT WITH DistributedDataParallel
  ls::ConvNet model;
  model->to(device);
  ls::DistributedDataParallel ddp(model);

  // Setup the loss, optimizer, loader
  torch::nn::CrossEntropyLoss criterion;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (args.optimizer == "adam") {
    optimizer = std::make_unique<torch::optim::Adam>(model->parameters(), args.lr);
  } else {
    optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), args.lr);
  }
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  ls::DataLoader train_loader(train_dataset, options, train_sampler);
  const auto total_step = train_loader.size();

  const auto start = std::chrono::steady_clock::now();
  for (int epoch = 0; epoch < args.epochs; ++epoch) {
    train_sampler->set_epoch(epoch);
    std::int64_t i = 0;
    for (auto& batch : train_loader) {
      move_to(batch, device);
      // Forward pass
      auto outputs = ddp(batch["images"]);
      auto loss = criterion(outputs, batch["labels"]);
      // Backward and optimize
      optimizer->zero_grad();
      loss.backward();
      optimizer->step();
      require_number(loss, epoch, i + 1);
      if (++i % 100 == 0 || (total_step < 100 && i == total_step)) {
        std::printf("Epoch [%d/%d], Step [%ld/%ld], Loss: %.4f\n", epoch + 1, args.epochs, static_cast<long>(i),
                    static_cast<long>(total_step), loss.item<double>());
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double per_rank = args.epochs * static_cast<double>(train_sampler->size()) / took.count();
  const double percent = accuracy(model, test_dataset, device, rank, args.world_size);
  if (rank == 0) {
    std::printf("%.0f samples/s per rank, %.0f in all\n", per_rank, per_rank * args.world_size);
    std::printf("Accuracy on the test images: %.2f %%\n", percent);
  }
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line at once, also into a pipe
  Arguments args;
  CLI::App app("Trains a ConvNet on MNIST, or on any IDX files in its form, over several ranks.", "ddp_mnist");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  ddp_mnist -w 2 -nr 0 --data mnist    (and in another terminal: -nr 1)\n"
      "  lockstep run --nproc-per-node 2 ddp_mnist --data mnist --optimizer adam --lr 1e-3\n"
      "  mpirun -np 4 ddp_mnist --data mnist --backend mpi");
  app.add_option("-w,--world_size", args.world_size, "number of nodes in total")->envname("WORLD_SIZE");
  app.add_option("--nr", args.nr, "-nr works too: ranking within the nodes")->envname("RANK");
  app.add_option("-g,--gpu", args.gpu,
                 "cuda device ID; -1 represents cpu. Default: that of LOCAL_RANK under a launcher, else -1")
      ->check(CLI::Range(-1, 1 << 10));
  app.add_option("--epochs", args.epochs, "number of total epochs to run")->check(CLI::Range(1, 1000000));
  app.add_option("--master_addr", args.master_addr, "address of master node (node with rank 0)");
  app.add_option("--master_port", args.master_port, "port number of master node (node with rank 0)");
  app.add_option("--data", args.data, "folder of IDX files: train-images-idx3-ubyte[.gz] and so on");
  app.add_option("--backend", args.backend,
                 "engine of the collectives: shm, gloo, mpi, ...; empty: the fastest that fits");
  app.add_option("--optimizer", args.optimizer, "sgd or adam")->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--lr", args.lr, "learning rate");
  app.add_option("--batch_size", args.batch_size, "samples per rank and step")->check(CLI::Range(1, 1000000));
  ls::adopt_launcher_environment();  // sets RANK and WORLD_SIZE under mpirun, too
  std::vector<std::string> words(argv + 1, argv + argc);
  for (auto& word : words) word = word == "-nr" ? "--nr" : word;  // the lecture's spelling
  std::reverse(words.begin(), words.end());                       // the parser takes the last word first
  try {
    app.parse(words);
    train(args);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", args.nr, error.what());
    return 1;
  }
}
