// Fine-tunes a BERT from a Hugging Face folder, or trains a small one from nothing, to rate reviews, on several ranks:
//   lockstep run --nproc-per-node 2 ddp_reviews
//   lockstep run --nproc-per-node 2 ddp_reviews --model bert-base-cased --label stars
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "device.h"
#include "learning.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string model = "bert-tiny", tokenizer, train = "data/reviews.csv", test = "data/reviews-test.csv";
  std::string text = "review", label = "division", save;
  std::int64_t train_samples = 0, test_samples = 0, max_length = 128, batch_size = 32;
  int epochs = 3;
  std::optional<double> lr;
};

// The rows of a file; if `samples` is given, a selection of that size, made before anything is tokenized.
std::shared_ptr<const ls::TextDataset> rows_of(const std::string& path, std::int64_t samples, const Arguments& args,
                                               const std::map<std::string, std::int64_t>& labels = {}) {
  ls::TextFileOptions columns;
  columns.texts = {args.text};
  columns.label = args.label;
  columns.labels = labels;
  columns.empty_texts = ls::RowPolicy::Skip;
  auto rows = ls::open_text_file(path, columns);
  return samples > 0 ? ls::sample_rows(rows, samples, 42) : rows;
}

std::shared_ptr<ls::Model> load_model(const Arguments& args, const ls::Tokenizer& tokenizer,
                                      const std::vector<std::string>& labels) {
  ls::LoadOptions options;
  options.labels = labels;
  options.tokenizer_size = tokenizer.vocab_size();
  auto loaded = ls::load_or_make_model(args.model, ls::TextTask::SequenceClassification, options, tokenizer.pad_id());
  if (ls::get_rank() == 0) std::printf("%s", loaded.report.text().c_str());
  return loaded.model;
}

double accuracy(ls::Model& model, ls::DataLoader& loader, torch::Device device) {
  torch::NoGradGuard no_grad;
  model.eval();
  torch::Tensor correct = zero_count(device);
  for (auto& batch : loader) {
    move_to(batch, device);
    correct += model.forward(batch).argmax(1).eq(batch["labels"]).sum();
  }
  ls::default_group()->all_reduce(correct);
  return 100.0 * correct.item<double>() / static_cast<double>(loader.dataset()->size());
}

void train(const Arguments& args) {
  // Initialize the distributed process group
  ls::init_process_group();
  const int rank = ls::get_rank(), world_size = ls::get_world_size();
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other
  torch::manual_seed(42);

  // Load the datasets, the tokenizer and the model
  auto train_rows = rows_of(args.train, args.train_samples, args);
  auto test_rows = rows_of(args.test, args.test_samples, args, train_rows->labels());
  std::vector<std::string> labels(train_rows->labels().size());
  for (const auto& [name, id] : train_rows->labels()) labels.at(static_cast<std::size_t>(id)) = name;
  const auto tokenizer = ls::load_tokenizer(args.tokenizer);
  auto model = load_model(args, tokenizer, labels);
  model->to(device);

  // Wrap the model with DistributedDataParallel; after that, each rank draws its own dropout
  ls::DistributedDataParallel ddp(model);
  torch::manual_seed(42 + rank);

  // Tokenize, and distribute the samples: the training set in equal parts, the test set with each sample once
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.max_length;
  auto train_dataset = ls::tokenize(*train_rows, tokenizer, tokenize);
  auto test_dataset = ls::tokenize(*test_rows, tokenizer, tokenize);
  ls::DistributedSamplerOptions share;
  share.num_replicas = world_size;
  share.rank = rank;
  ls::ExactDistributedSamplerOptions test_share;
  test_share.num_replicas = world_size;
  test_share.rank = rank;
  auto train_sampler = std::make_shared<ls::DistributedSampler>(train_dataset->size(), share);
  auto test_sampler = std::make_shared<ls::ExactDistributedSampler>(test_dataset->size(), test_share);
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  options.collate = ls::DataCollatorWithPadding(tokenizer);
  ls::DataLoader train_loader(train_dataset, options, train_sampler);
  ls::DataLoader test_loader(test_dataset, options, test_sampler);

  // Set up the optimizer
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(learning_rate_of(args.model, args.lr, 2e-5)));
  ddp.fuse(optimizer);  // the ranks share the work of the update

  LossHint hint;
  std::int64_t global_step = 0;
  for (int epoch = 0; epoch < args.epochs; ++epoch) {
    model->train();
    // Set the epoch for the sampler to ensure a different shuffling each epoch
    train_sampler->set_epoch(epoch);
    for (auto& batch : train_loader) {
      move_to(batch, device);
      optimizer.zero_grad();
      auto loss = model->loss(ddp(batch), batch).mean();
      loss.backward();
      optimizer.step();
      require_number(loss, epoch, global_step);
      hint.add(loss.item<double>());
      if (global_step % 10 == 0 && rank == 0) {
        std::printf("Epoch: %d, Step: %ld, Loss: %.4f\n", epoch, static_cast<long>(global_step), loss.item<double>());
      }
      ++global_step;
    }
  }
  const double percent = accuracy(*model, test_loader, device);
  if (rank == 0) std::printf("Accuracy on the test reviews: %.2f %%\n", percent);
  if (rank == 0) hint.print(learning_rate_of(args.model, args.lr, 2e-5));

  // Save the model checkpoint only on the main process
  if (rank == 0 && !args.save.empty()) {
    ls::save_model(*model, args.save);
    tokenizer.save(args.save);
    std::printf("Model checkpoint saved in %s.\n", args.save.c_str());
  }

  // Cleanup distributed processes
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a BERT to rate reviews over several ranks. Start it with `lockstep run`.");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  lockstep run --nproc-per-node 2 ddp_reviews --model bert-base-cased --label stars\n"
      "  lockstep run --nproc-per-node 2 ddp_reviews --epochs 10 --save trained");
  app.add_option("--model", args.model, "folder of a BERT, or bert-tiny, -mini, -small, -base with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer; default: the model's, or data/reviews-vocab");
  app.add_option("--train", args.train, "CSV, TSV or JSON Lines file to train on");
  app.add_option("--test", args.test, "file to measure the accuracy on");
  app.add_option("--text", args.text, "column of the text");
  app.add_option("--label", args.label, "column of the label: division or stars");
  app.add_option("--train_samples", args.train_samples, "take this many rows at random; 0: all")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--test_samples", args.test_samples, "the same for the test")->check(CLI::Range(0, 1000000000));
  app.add_option("--max_length", args.max_length, "tokens of the longest text; the rest is cut off")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--batch_size", args.batch_size, "samples per rank and step")->check(CLI::Range(1, 1000000));
  app.add_option("--epochs", args.epochs, "how often to go through the training set")->check(CLI::Range(1, 1000000));
  app.add_option("--lr", args.lr, "learning rate of Adam; default: 2e-5 for a folder's model, 5e-4 for random weights");
  app.add_option("--save", args.save, "folder for the trained model and its tokenizer");
  return run_example(app, argc, argv, [&] {
    if (args.tokenizer.empty()) {
      args.tokenizer = std::filesystem::is_directory(args.model) ? args.model : "data/reviews-vocab";
    }
    train(args);
  });
}
