#pragma once

// The arguments of mnist.cpp and accelerate_mnist.cpp.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "run_example.h"

struct MnistArguments {
  std::string data = "data/digits";
  int epochs = 2;
  std::int64_t batch_size = 100;
  double lr = 1e-4;
};

inline int run_mnist(int argc, char** argv, void (*train)(const MnistArguments&)) {
  MnistArguments args;
  CLI::App app("Trains a ConvNet on MNIST, or on any IDX files in its form.");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  mnist --data mnist\n  lockstep launch --num-processes 2 --cpu accelerate_mnist --data mnist");
  app.add_option("--data", args.data, "folder of IDX files: train-images-idx3-ubyte[.gz] and so on");
  app.add_option("--epochs", args.epochs, "number of total epochs to run")->check(CLI::Range(1, 1 << 30));
  app.add_option("--batch_size", args.batch_size, "samples per rank and step")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate")->check(CLI::NonNegativeNumber);
  return run_example(app, argc, argv, [&] { train(args); });
}
