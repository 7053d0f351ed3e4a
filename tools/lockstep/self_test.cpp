#include "tools/lockstep/self_test.h"

#include <fmt/format.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/train/accelerator.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

constexpr std::int64_t kBatch = 4;
constexpr double kLearningRate = 0.05;

// Writes a whole line at once, because ranks write at the same time.
void say(const Accelerator& accelerator, const std::string& line) {
  accelerator.print(line);
  std::fflush(stdout);
}

void require(const Accelerator& accelerator, bool holds, const std::string& what) {
  if (holds) return;
  throw Error("this did not hold: " + what,
              fmt::format("rank {} of {}", accelerator.process_index(), accelerator.num_processes()),
              "look at the job with lockstep env and lockstep launch --show-config; then report it as a bug");
}

// Rows that contain their number, with targets on a line.
std::shared_ptr<const Dataset> numbered_samples(std::int64_t count) {
  const at::Tensor numbers = torch::arange(count, torch::kFloat);
  const at::Tensor x = torch::sin(numbers).unsqueeze(1);
  return std::make_shared<TensorDataset>(Batch{{"x", x}, {"y", x * 2 + 3}, {"number", numbers}});
}

DataLoader loader_over(std::int64_t samples, std::int64_t batch_size, bool shuffle) {
  DataLoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = shuffle;
  return DataLoader(numbered_samples(samples), options);
}

void check_processes(Accelerator& accelerator) {
  say(accelerator, "\n**Test process execution**");
  const int rank = accelerator.process_index();
  const int ranks = accelerator.num_processes();
  const at::Tensor all = accelerator.gather(torch::full({1}, rank, torch::kLong));
  require(accelerator, torch::equal(all, torch::arange(ranks)), "gather gives each rank's number, in order");
  const at::Tensor mains = accelerator.reduce(torch::full({1}, accelerator.is_main_process() ? 1 : 0, torch::kLong));
  require(accelerator, mains.item<std::int64_t>() == 1, "there is one main process");
  const at::Tensor padded = accelerator.pad_across_processes(torch::ones({rank + 1}), 0, 7);
  require(accelerator, padded.size(0) == ranks && padded.sum().item<double>() == rank + 1 + 7.0 * (ranks - rank - 1),
          "pad_across_processes fills up to the longest");

  accelerator.wait_for_everyone();
  double when = 0;
  accelerator.main_process_first(
      [&] { when = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); });
  const at::Tensor times = accelerator.gather(torch::full({1}, when, torch::kDouble));
  // Different hosts have different clocks.
  const bool one_host = accelerator.process_group().membership().on_one_host();
  require(accelerator, !one_host || times.min().item<double>() == times[0].item<double>(),
          "main_process_first lets the main process go first");
}

void check_split(Accelerator& accelerator) {
  const int ranks = accelerator.num_processes();
  say(accelerator, "\n**Test split between processes as a list**");
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(2 * ranks + 1));
  std::iota(inputs.begin(), inputs.end(), 0);
  const auto part = accelerator.split_between_processes(inputs);
  at::Tensor sums = torch::tensor(
      {std::accumulate(part.begin(), part.end(), std::int64_t{0}), static_cast<std::int64_t>(part.size())});
  sums = accelerator.reduce(sums);
  require(accelerator, sums[0].item<std::int64_t>() == ranks * (2 * ranks + 1), "each input is in one part");
  require(accelerator, sums[1].item<std::int64_t>() == 2 * ranks + 1, "no input is in two parts");

  say(accelerator, "\n**Test split between processes as a tensor**");
  const at::Tensor rows = torch::arange(2 * ranks).view({-1, 1});
  const at::Tensor mine = accelerator.split_between_processes(rows);
  require(accelerator, torch::equal(accelerator.gather(mine), rows), "the parts of a tensor make the whole again");
}

void check_generators(Accelerator& accelerator) {
  say(accelerator, "\n**Test random number generator synchronization**");
  set_seed(42);
  const at::Tensor same = accelerator.gather(torch::rand({1, 4}));
  require(accelerator, torch::equal(same, same.slice(0, 0, 1).expand_as(same)), "set_seed makes generators equal");
  set_seed(42, /*device_specific=*/true);
  const at::Tensor own = accelerator.gather(torch::rand({1, 4}));
  require(accelerator, accelerator.num_processes() == 1 || !torch::equal(own[0], own[1]),
          "set_seed with device_specific makes them differ");
}

// The numbers of the samples of one pass, over all ranks, in the form that metrics get.
at::Tensor numbers_of_pass(Accelerator& accelerator, PreparedLoader& loader) {
  std::vector<at::Tensor> numbers;
  for (Batch& batch : loader) numbers.push_back(accelerator.gather_for_metrics(batch["number"]));
  return torch::cat(numbers);
}

void check_loader(Accelerator& accelerator, std::int64_t samples) {
  const at::Tensor wanted = torch::arange(samples, torch::kFloat);
  auto [in_order] = accelerator.prepare(loader_over(samples, kBatch, false));
  require(accelerator, torch::equal(numbers_of_pass(accelerator, in_order), wanted),
          fmt::format("{} samples come in order, each once", samples));
  auto [shuffled] = accelerator.prepare(loader_over(samples, kBatch, true));
  const at::Tensor first = numbers_of_pass(accelerator, shuffled);
  const at::Tensor second = numbers_of_pass(accelerator, shuffled);
  require(accelerator, torch::equal(std::get<0>(first.sort()), wanted),
          fmt::format("{} samples come shuffled, each once", samples));
  require(accelerator, !torch::equal(first, second), "each pass shuffles again");
}

Linear line_model() {
  Linear net(1, 1);
  const torch::NoGradGuard no_grad;
  net->weight.fill_(0.5);
  net->bias.fill_(0.1);
  return net;
}

at::Tensor weights_of_line(const Linear& net) { return torch::cat({net->weight.view(-1), net->bias}).detach().clone(); }

at::Tensor squared_difference(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).pow(2).mean();
}

at::Tensor line_trained_alone(std::int64_t samples, std::int64_t batch_size) {
  Linear net = line_model();
  torch::optim::SGD sgd(net->parameters(), kLearningRate);
  DataLoader loader = loader_over(samples, batch_size, false);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (Batch& batch : loader) {
      sgd.zero_grad();
      squared_difference(net(batch["x"]), batch["y"]).backward();
      sgd.step();
    }
  }
  return weights_of_line(net);
}

at::Tensor line_trained_together(Accelerator& accelerator, std::int64_t samples, std::int64_t batch_size) {
  Linear net = line_model();
  torch::optim::SGD sgd(net->parameters(), kLearningRate);
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, loader_over(samples, batch_size, false));
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (Batch& batch : loader) {
      const auto window = accelerator.accumulate(model);
      at::Tensor loss;
      {
        const Autocast autocast = accelerator.autocast();
        loss = squared_difference(model(batch["x"]), batch["y"]);
      }
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  return weights_of_line(net);
}

// With equal samples in each update, ranks must end with the weights that one process gets.
void check_training(const char* how, AcceleratorOptions options, double tolerance) {
  Accelerator accelerator(std::move(options));
  const std::int64_t ranks = accelerator.num_processes();
  const std::int64_t update = kBatch * ranks * accelerator.gradient_accumulation_steps();
  const std::int64_t samples = 6 * update;
  const at::Tensor alone = line_trained_alone(samples, update);
  const at::Tensor together = line_trained_together(accelerator, samples, kBatch);
  const double difference = (alone - together).abs().max().item<double>();
  require(accelerator, std::isfinite(difference) && difference <= tolerance,
          fmt::format("training {} gives the weights of one process: they differ by {:.1e}", how, difference));
  const at::Tensor all = accelerator.gather(together.unsqueeze(0));
  require(accelerator, torch::equal(all, all.slice(0, 0, 1).expand_as(all)), "all ranks end with equal weights");
  say(accelerator, fmt::format("Training yielded the same results on {} process(es) and on one, {}: they differ by "
                               "{:.1e}",
                               ranks, how, difference));
}

void check_trigger(Accelerator& accelerator) {
  say(accelerator, "\n**Test trigger**");
  require(accelerator, !accelerator.check_trigger(), "no rank has asked to stop");
  if (accelerator.is_last_process()) accelerator.set_trigger();
  require(accelerator, accelerator.check_trigger(), "every rank hears that one asked to stop");
}

}  // namespace

void run_self_test() {
  AcceleratorOptions plain;
  plain.mixed_precision = "no";
  plain.gradient_accumulation_steps = 1;
  Accelerator configured;  // from the file and the flags
  say(configured, "**Initialization**");
  say(configured, fmt::format("Processes: {}, engine {}\nMixed precision: {}", configured.num_processes(),
                              configured.process_group().engine(), configured.mixed_precision()));
  Accelerator accelerator(plain);
  check_processes(accelerator);
  check_split(accelerator);
  check_generators(accelerator);
  say(accelerator, "\n**DataLoader integration test**");
  const std::int64_t ranks = accelerator.num_processes();
  for (const std::int64_t samples : {kBatch * ranks * 4, kBatch * ranks * 4 + 3, kBatch * ranks + 1}) {
    check_loader(accelerator, samples);
  }
  say(accelerator, "\n**Training integration test**");
  check_training("with one batch an update", plain, 1e-5);
  AcceleratorOptions accumulating = plain;
  accumulating.gradient_accumulation_steps = 3;
  check_training("with accumulated gradients", accumulating, 1e-5);
  if (configured.mixed_precision() != "no") {
    AcceleratorOptions mixed = plain;
    mixed.mixed_precision = configured.mixed_precision();
    check_training("in mixed precision", mixed, 5e-2);
  }
  check_trigger(accelerator);
  accelerator.wait_for_everyone();
}

}  // namespace lockstep
