// Accelerator's loop with all that a training needs: accumulated batches, clipping, a schedule, an evaluation that
// counts each image once, and a checkpoint from which it continues:
//   lockstep launch --num-processes 2 --cpu accelerate_loop --data digits
//   lockstep launch --num-processes 2 --cpu accelerate_loop --data digits --epochs 4 --resume
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "lockstep/data/data_loader.h"
#include "lockstep/data/mnist.h"
#include "lockstep/models/convnet.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/train/accelerator.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string data = "data/digits", output = "accelerate_out";
  int epochs = 2;
  std::int64_t batch_size = 25, accumulate = 2;
  double lr = 2e-3;
  bool resume = false;
};

void evaluate(ls::Accelerator& accelerator, ls::PreparedModel<ls::ConvNet>& model, ls::PreparedLoader& loader) {
  const torch::NoGradGuard no_grad;
  model.module()->eval();
  std::int64_t right = 0, images = 0;
  for (auto& batch : loader) {
    const auto is_right = model(batch["images"]).argmax(1).eq(batch["labels"]);
    // The answers of all ranks, without the images that were repeated to make the ranks' batches even
    const auto all = accelerator.gather_for_metrics(is_right);
    right += all.sum().item<std::int64_t>();
    images += all.size(0);
  }
  model.module()->train();
  accelerator.print(std::to_string(right) + " of " + std::to_string(images) + " test images are right");
}

void train(const Arguments& args) {
  ls::AcceleratorOptions options;
  options.gradient_accumulation_steps = args.accumulate;
  ls::Accelerator accelerator(options);  // first: it may start this program again, once for each process
  torch::manual_seed(0);

  ls::ConvNet net;
  ls::Adam adam(net->parameters(), torch::optim::AdamOptions(args.lr));
  ls::ScheduleOptions warmup;
  warmup.num_warmup_steps = 5;
  ls::LambdaLR schedule(adam, ls::make_schedule("constant_with_warmup", warmup));
  ls::DataLoaderOptions batches;
  batches.batch_size = args.batch_size;
  ls::DataLoader test_data(ls::mnist(args.data, ls::Split::Test), batches);
  batches.shuffle = true;
  ls::DataLoader train_data(ls::mnist(args.data, ls::Split::Train), batches);

  auto [model, optimizer, train_loader, test_loader, scheduler] =
      accelerator.prepare(net, adam, train_data, test_data, schedule);
  if (args.resume) accelerator.load_state(args.output + "/state");

  torch::nn::CrossEntropyLoss criterion;
  for (auto epoch = train_loader.next_epoch(); epoch < args.epochs; ++epoch) {
    std::int64_t updates = 0;
    torch::Tensor loss;
    for (auto& batch : train_loader) {
      const auto micro_batch = accelerator.accumulate(model);
      loss = criterion(model(batch["images"]), batch["labels"]);
      accelerator.backward(loss);
      accelerator.clip_grad_norm_(net->parameters(), 1.0);  // if an update follows
      updates += accelerator.sync_gradients() ? 1 : 0;
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
    }
    require_number(loss, epoch, updates);
    accelerator.print("epoch " + std::to_string(epoch + 1) + ": " + std::to_string(updates) + " updates");
    evaluate(accelerator, model, test_loader);
    accelerator.save_state(args.output + "/state");
  }
  accelerator.save_model(model, args.output + "/model");
  accelerator.end_training();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a ConvNet with Accelerator, evaluates it, and continues from checkpoints.", "accelerate_loop");
  app.option_defaults()->always_capture_default();
  app.footer("Example: lockstep launch --num-processes 2 --cpu accelerate_loop --data digits");
  app.add_option("--data", args.data, "folder of IDX files: train-images-idx3-ubyte[.gz] and so on");
  app.add_option("--output", args.output, "folder for the state after each epoch, and for the trained model");
  app.add_option("--epochs", args.epochs, "number of total epochs to run")->check(CLI::Range(1, 1 << 30));
  app.add_option("--batch_size", args.batch_size, "samples per rank and micro-batch")->check(CLI::Range(1, 1 << 30));
  app.add_option("--accumulate", args.accumulate, "micro-batches of an update")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate after the warm-up")->check(CLI::NonNegativeNumber);
  app.add_flag("--resume", args.resume, "continue from the state in --output");
  return run_example(app, argc, argv, [&] { train(args); });
}
