// Sentiment of reviews with BERT and DataParallel, in one process. Reviews that are neither positive nor negative are
// left out; a tenth of the others is kept to measure the accuracy after each epoch.
//   dp_sentiment --model bert-base-uncased
//   dp_sentiment --epochs 5
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "learning.h"
#include "lockstep/base/error.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/subset_dataset.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/replicas/data_parallel.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string model = "bert-tiny", tokenizer, data = "data/reviews.csv", text = "review", label = "division";
  std::string positive = "positive", negative = "negative";
  std::int64_t batch_size = 32, max_length = 512;
  int replicas = 0, epochs = 1, log_step = 20;
  std::optional<double> lr;
};

std::shared_ptr<const ls::TextDataset> rows_of(const Arguments& args) {
  ls::TextFileOptions columns;
  columns.texts = {args.text};
  columns.label = args.label;
  columns.labels = {{args.positive, 0}, {args.negative, 1}};
  columns.unlisted_labels = ls::RowPolicy::Skip;
  columns.empty_texts = ls::RowPolicy::Skip;
  const auto rows = ls::open_text_file(args.data, columns);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < rows->size() && seen.size() < 2; ++i) seen.insert(rows->get(i).label.value());
  if (seen.size() < 2) {
    throw ls::Error("the reviews are not of two kinds, \"" + args.positive + "\" and \"" + args.negative + "\"",
                    args.data + ", column " + args.label, "name two labels of it by --positive and --negative");
  }
  return rows;
}

std::shared_ptr<ls::Model> load_model(const Arguments& args, const ls::Tokenizer& tokenizer) {
  ls::LoadOptions options;
  options.labels = {args.positive, args.negative};
  options.tokenizer_size = tokenizer.vocab_size();
  auto loaded = ls::load_or_make_model(args.model, ls::TextTask::SequenceClassification, options, tokenizer.pad_id());
  std::printf("%s", loaded.report.text().c_str());
  return loaded.model;
}

using Parallel = ls::DataParallel<std::shared_ptr<ls::Model>>;

// Returns what Hugging Face's models return: the loss for the labels, and the scores. Each replica's loss is a sum and
// a count, so that the mean is the batch's loss even if the batch does not divide evenly.
std::tuple<ls::LossSum, torch::Tensor> output_of(Parallel& model, const ls::Batch& batch) {
  return model.apply(
      [](auto& replica, const ls::Batch& part) {
        auto logits = replica->forward(part);
        return std::make_tuple(replica->loss(logits, part), logits);
      },
      batch);
}

double evaluate(Parallel& model, ls::DataLoader& validloader) {
  model.module()->eval();
  torch::NoGradGuard no_grad;
  std::int64_t acc_num = 0, count = 0;
  for (auto& batch : validloader) {
    auto [loss, logits] = output_of(model, batch);
    count += batch["labels"].size(0);
    acc_num += logits.argmax(-1).cpu().eq(batch["labels"]).sum().item<std::int64_t>();
  }
  return static_cast<double>(acc_num) / static_cast<double>(count);
}

void train(const Arguments& args) {
  torch::manual_seed(42);
  // 1. load dataset, and split it
  const auto tokenizer = ls::load_tokenizer(args.tokenizer);
  const auto rows = rows_of(args);
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.max_length;
  const auto ds = ls::tokenize(*rows, tokenizer, tokenize);
  const std::int64_t valid_size = std::max<std::int64_t>(1, ds->size() / 10);
  const auto parts = ls::random_split(ds, {ds->size() - valid_size, valid_size}, 42);
  std::printf("%ld reviews to train on, %ld to validate\n", static_cast<long>(parts[0]->size()),
              static_cast<long>(parts[1]->size()));

  // 2. data loader
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  options.collate = ls::DataCollatorWithPadding(tokenizer);
  ls::DataLoader validloader(parts[1], options);
  options.shuffle = true;
  options.drop_last = true;
  ls::DataLoader trainloader(parts[0], options);
  if (trainloader.size() == 0) {
    throw ls::Error("there is no whole batch of " + std::to_string(args.batch_size) + " reviews", args.data,
                    "make --batch_size smaller");
  }

  // 3. load model, and A. wrap it: device_ids are all devices, or the requested number
  auto devices = ls::all_replica_devices();
  if (args.replicas > 0) devices.clear();
  for (int i = 0; i < args.replicas; ++i) devices.emplace_back(i);
  auto module = load_model(args, tokenizer);
  module->to(devices.front().tensor_device());
  Parallel model(module, devices);

  // 4. define optimizer
  ls::Adam optimizer(module->parameters(), torch::optim::AdamOptions(learning_rate_of(args.model, args.lr, 2e-5)));

  LossHint hint;
  long step = 0;
  for (int e = 0; e < args.epochs; ++e) {
    module->train();
    for (auto& batch : trainloader) {
      optimizer.zero_grad();
      // B. DataParallel scatters the data. C. The loss holds two vectors with one element per replica
      auto [loss, logits] = output_of(model, batch);
      loss.mean().backward();
      optimizer.step();
      require_number(loss.mean(), e, step);
      hint.add(loss.mean().item<double>());
      if (step++ % args.log_step == 0) {
        std::printf("epoch %d / %d: global step: %ld, loss: %.4f\n", e + 1, args.epochs, step - 1,
                    loss.mean().item<double>());
      }
    }
    std::printf("epoch: %d : acc: %.4f\n", e + 1, evaluate(model, validloader));
  }
  hint.print(learning_rate_of(args.model, args.lr, 2e-5));
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a BERT to tell positive from negative reviews, with DataParallel.", "dp_sentiment");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  dp_sentiment --model bert-base-uncased\n  dp_sentiment --epochs 5\n"
      "  dp_sentiment --data amazon_alexa.tsv --text verified_reviews --label feedback --positive 1 --negative 0");
  app.add_option("--model", args.model, "folder of a BERT, or bert-tiny, -mini, -small, -base with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer; default: the model's, or data/reviews-vocab");
  app.add_option("--data", args.data, "CSV, TSV or JSON Lines file; a tenth of it is kept for the accuracy");
  app.add_option("--text", args.text, "column of the text");
  app.add_option("--label", args.label, "column of the label");
  app.add_option("--positive", args.positive, "label of a positive review; rows with neither label are left out");
  app.add_option("--negative", args.negative, "label of a negative one");
  app.add_option("--replicas", args.replicas, "replicas of DataParallel; 0: one for each device, here each core")
      ->check(CLI::Range(0, 1024));
  app.add_option("--batch_size", args.batch_size, "reviews per step, over all replicas")->check(CLI::Range(1, 1 << 30));
  app.add_option("--max_length", args.max_length, "tokens of the longest text; the rest is cut off")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--epochs", args.epochs, "how often to go through the training set")->check(CLI::Range(1, 1 << 30));
  app.add_option("--log_step", args.log_step, "steps between two lines with the loss")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate of Adam; default: 2e-5 for a folder's model, 5e-4 for random weights");
  return run_example(app, argc, argv, [&] {
    if (args.tokenizer.empty()) {
      args.tokenizer = std::filesystem::is_directory(args.model) ? args.model : "data/reviews-vocab";
    }
    train(args);
  });
}
