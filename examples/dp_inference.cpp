// Inference with DataParallel's own parts: the model is replicated once, and each batch is then only scattered, applied
// and gathered. Reads a model that `lockstep train` or an example saved:
//   dp_inference --model reviews                     all devices of this process
//   dp_inference --model reviews --replicas 1        one device; the predictions are equal
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/replicas/gather.h"
#include "lockstep/replicas/parallel_apply.h"
#include "lockstep/replicas/replicate.h"
#include "lockstep/replicas/scatter.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string model, data = "data/reviews-test.csv", text = "review", output = "predictions.txt";
  std::int64_t batch_size = 32, max_length = 64;
  int replicas = 0;
};

std::vector<ls::ReplicaDevice> devices_of(const Arguments& args) {
  if (args.replicas == 0) return ls::all_replica_devices();
  std::vector<ls::ReplicaDevice> devices;
  for (int i = 0; i < args.replicas; ++i) devices.emplace_back(i);
  return devices;
}

void infer(const Arguments& args) {
  // 1. load model
  const auto tokenizer = ls::load_tokenizer(args.model);
  ls::LoadOptions options;
  options.tokenizer_size = tokenizer.vocab_size();
  auto bert = ls::load_pretrained_model(args.model, ls::TextTask::SequenceClassification, options).model;
  bert->eval();  // no dropout
  const auto labels = ls::labels_of(*bert);

  // 2. load data; nothing is shuffled, so the predictions have the order of the file
  ls::TextFileOptions columns;
  columns.texts = {args.text};
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.max_length;
  ls::DataLoaderOptions batches;
  batches.batch_size = args.batch_size;
  batches.collate = ls::DataCollatorWithPadding(tokenizer);
  ls::DataLoader loader(ls::tokenize(*ls::open_text_file(args.data, columns), tokenizer, tokenize), batches);

  // 3. replicate once
  const auto devices = devices_of(args);
  bert->to(devices.front().tensor_device());
  auto replicas = ls::replicate(bert, devices);

  // 4. for every batch: scatter, apply, gather
  const torch::NoGradGuard no_grad;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<torch::Tensor> predicted;
  for (auto& batch : loader) {
    const auto inputs = ls::scatter(std::make_tuple(batch), replicas.devices());
    const auto outputs = ls::parallel_apply(replicas, inputs);
    predicted.push_back(ls::gather(outputs, devices.front()).argmax(1).cpu());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  const torch::Tensor classes = torch::cat(predicted);
  std::ofstream file(args.output);
  for (std::int64_t i = 0; i < classes.size(0); ++i) {
    file << labels.at(static_cast<std::size_t>(classes[i].item<std::int64_t>())) << '\n';
  }
  if (!file.flush()) throw ls::Error("the predictions cannot be written", args.output, "free space, or name --output");
  std::printf("%ld texts on %zu replica(s) in batches of %ld: %.0f texts a second; written to %s\n",
              static_cast<long>(classes.size(0)), replicas.size(), static_cast<long>(args.batch_size),
              static_cast<double>(classes.size(0)) / seconds.count(), args.output.c_str());
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Classifies texts with a saved BERT on several replicas of one process.", "dp_inference");
  app.option_defaults()->always_capture_default();
  app.footer("Examples:\n  dp_inference --model reviews\n  dp_inference --model reviews --replicas 1 --batch_size 128");
  app.add_option("--model", args.model, "folder of a BERT that classifies, with its tokenizer")->required();
  app.add_option("--data", args.data, "CSV, TSV or JSON Lines file of texts");
  app.add_option("--text", args.text, "column of the text");
  app.add_option("--output", args.output, "file for the predictions, one a line, in the order of the texts");
  app.add_option("--batch_size", args.batch_size, "texts per batch, over all replicas")->check(CLI::Range(1, 1 << 30));
  app.add_option("--max_length", args.max_length, "tokens of the longest text; the rest is cut off")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--replicas", args.replicas, "number of replicas; 0: one for each device, here each core")
      ->check(CLI::Range(0, 1024));
  return run_example(app, argc, argv, [&] { infer(args); });
}
