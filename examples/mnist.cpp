// A plain training loop of LibTorch, for one process. accelerate_mnist.cpp is the same for many: four lines differ.
#include <torch/torch.h>

#include <cstdio>
#include <tuple>

#include "lockstep/data/data_loader.h"
#include "lockstep/data/mnist.h"
#include "lockstep/models/convnet.h"
#include "mnist_arguments.h"
#include "require_number.h"

namespace ls = lockstep;

void train(const MnistArguments& args) {
  torch::manual_seed(0);
  // Loading dataset
  auto train_dataset = ls::mnist(args.data, ls::Split::Train);
  // Create model
  ls::ConvNet net;
  // Setup the loss, optimizer, loader
  torch::nn::CrossEntropyLoss criterion;
  torch::optim::SGD sgd(net->parameters(), args.lr);
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  ls::DataLoader data(train_dataset, options);
  auto [model, optimizer, train_loader] = std::tie(net, sgd, data);
  const long total_step = train_loader.size();
  for (int epoch = 0; epoch < args.epochs; ++epoch) {
    long i = 0;
    for (auto& batch : train_loader) {
      // Forward pass
      auto outputs = model(batch["images"]);
      auto loss = criterion(outputs, batch["labels"]);
      // Backward and optimize
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      require_number(loss, epoch, i + 1);
      if (++i % 100 == 0 || (total_step < 100 && i == total_step)) {
        std::printf("Epoch [%d/%d], Step [%ld/%ld], Loss: %.4f\n", epoch + 1, args.epochs, i, total_step,
                    loss.item<double>());
      }
    }
  }
}

int main(int argc, char** argv) { return run_mnist(argc, argv, train); }
