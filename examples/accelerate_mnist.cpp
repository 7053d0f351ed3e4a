// The loop of mnist.cpp with four lines changed. It runs in as many processes as `lockstep config` or `lockstep launch`
// sets.
#include <torch/torch.h>

#include <cstdio>
#include <tuple>

#include "lockstep/data/data_loader.h"
#include "lockstep/data/mnist.h"
#include "lockstep/models/convnet.h"
#include "lockstep/train/accelerator.h"
#include "mnist_arguments.h"
#include "require_number.h"

namespace ls = lockstep;

void train(const MnistArguments& args) {
  torch::manual_seed(0);
  ls::Accelerator accelerator;
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
  auto [model, optimizer, train_loader] = accelerator.prepare(net, sgd, data);
  const long total_step = train_loader.size();
  for (int epoch = 0; epoch < args.epochs; ++epoch) {
    long i = 0;
    for (auto& batch : train_loader) {
      // Forward pass
      auto outputs = model(batch["images"]);
      auto loss = criterion(outputs, batch["labels"]);
      // Backward and optimize
      optimizer.zero_grad();
      accelerator.backward(loss);
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
