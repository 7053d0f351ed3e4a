// Natural language inference on pairs of sentences: does the hypothesis follow from the premise, contradict it, or
// neither? Fine-tunes a BERT from a Hugging Face folder, or trains a small one, with DataParallel, in one process:
//   dp_nli --model bert-base-cased --train multinli_1.0_train.jsonl --premise sentence1 --hypothesis sentence2
//       --label gold_label
//   dp_nli --epochs 10 --test data/pairs-test.csv
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "learning.h"
#include "lockstep/base/error.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/replicas/parallel_loss.h"
#include "lockstep/replicas/step_trace.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

const std::map<std::string, std::int64_t> kLabels{{"entailment", 0}, {"neutral", 1}, {"contradiction", 2}};

struct Arguments {
  std::string model = "bert-tiny", tokenizer, train = "data/pairs.csv", test, trace;
  std::string premise = "premise", hypothesis = "hypothesis", label = "label";
  std::vector<std::string> columns;
  std::int64_t batch_size = 32, max_length = 512, steps = 300;
  int replicas = 0, epochs = 1;
  std::optional<double> lr;
};

std::shared_ptr<const ls::TextDataset> rows_of(const std::string& path, const Arguments& args) {
  ls::TextFileOptions columns;
  columns.texts = {args.premise, args.hypothesis};
  columns.label = args.label;
  columns.labels = kLabels;
  columns.unlisted_labels = ls::RowPolicy::Skip;  // MultiNLI marks pairs without agreement by "-"
  columns.column_names = args.columns;
  if (args.columns.empty()) return ls::open_text_file(path, columns);
  columns.dialect.quote = '\0';
  return ls::read_tsv_texts(path, columns);
}

std::shared_ptr<ls::Model> load_model(const Arguments& args, const ls::Tokenizer& tokenizer) {
  ls::LoadOptions options;
  options.labels = {"entailment", "neutral", "contradiction"};
  options.tokenizer_size = tokenizer.vocab_size();
  auto loaded = ls::load_or_make_model(args.model, ls::TextTask::SequenceClassification, options, tokenizer.pad_id());
  std::printf("%s", loaded.report.text().c_str());
  return loaded.model;
}

using Parallel = ls::DataParallel<std::shared_ptr<ls::Model>>;

double accuracy(Parallel& model, ls::DataLoader& test) {
  torch::NoGradGuard no_grad;
  model.module()->eval();
  std::int64_t correct = 0, pairs = 0;
  for (auto& batch : test) {
    correct += model(batch).argmax(1).cpu().eq(batch["labels"]).sum().item<std::int64_t>();
    pairs += batch["labels"].size(0);
  }
  return 100.0 * static_cast<double>(correct) / static_cast<double>(pairs);
}

// Shows the parts of one step, and writes them for ui.perfetto.dev
void show(const ls::StepTrace& trace, const std::string& path) {
  for (const ls::TraceSpan& span : trace.spans()) {
    std::printf("  %-10s %-8s %8.3f ms, %ld bytes\n", span.name.c_str(), span.device.c_str(),
                1e3 * (span.end_s - span.begin_s), static_cast<long>(span.bytes));
  }
  std::ofstream file(path);
  file << ls::chrome_trace(trace.spans());
  if (!file.flush()) throw ls::Error("the trace cannot be written", path, "free space, or name another --trace");
}

void train(const Arguments& args) {
  torch::manual_seed(42);

  // 1. create datasets, including the test's, so that a wrong file is reported now and not after the training
  const auto tokenizer = ls::load_tokenizer(args.tokenizer);
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.max_length;
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  options.collate = ls::DataCollatorWithPadding(tokenizer);
  std::unique_ptr<ls::DataLoader> test_loader;
  if (!args.test.empty()) {
    test_loader =
        std::make_unique<ls::DataLoader>(ls::tokenize(*rows_of(args.test, args), tokenizer, tokenize), options);
  }
  ls::DataLoaderOptions shuffled = options;
  shuffled.shuffle = true;
  ls::DataLoader data_loader(ls::tokenize(*rows_of(args.train, args), tokenizer, tokenize), shuffled);

  // 2. create model
  auto bert = load_model(args, tokenizer);

  // 3. make data parallel module; device_ids: all devices, or the requested number
  auto devices = ls::all_replica_devices();
  if (args.replicas > 0) devices.clear();
  for (int i = 0; i < args.replicas; ++i) devices.emplace_back(i);
  bert->to(devices.front().tensor_device());
  ls::StepTrace trace;
  Parallel model(bert, devices);

  // 4. create optimizer
  ls::Adam optimizer(bert->parameters(), torch::optim::AdamOptions(learning_rate_of(args.model, args.lr, 3e-5)));

  // 5. start training
  bert->train();
  LossHint hint;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < args.epochs && step <= args.steps; ++epoch) {
    for (auto& data : data_loader) {
      ls::StepTrace* const traced = step == 3 && !args.trace.empty() ? &trace : nullptr;  // the first steps are slower
      model.set_trace(traced);
      optimizer.zero_grad();
      // Each replica returns the sum of its pairs' losses and their count: the mean is the batch's, for any chunks
      auto loss =
          ls::parallel_loss(
              model, [](auto& replica, const ls::Batch& part) { return replica->loss(replica->forward(part), part); },
              data)
              .mean();
      loss.backward();
      {
        const ls::TraceScope scope(traced, "update", devices.front().name());
        optimizer.step();
      }
      if (traced != nullptr) show(trace, args.trace);
      require_number(loss, epoch, step);
      hint.add(loss.item<double>());
      if (step % 10 == 0) std::printf("step:%ld, loss:%.4f\n", static_cast<long>(step), loss.item<double>());
      if (++step > args.steps) break;
    }
  }
  model.set_trace(nullptr);
  if (test_loader) std::printf("Accuracy on the test pairs: %.2f %%\n", accuracy(model, *test_loader));
  hint.print(learning_rate_of(args.model, args.lr, 3e-5));
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a BERT to judge pairs of sentences, with DataParallel.", "dp_nli");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  dp_nli --epochs 10 --test data/pairs-test.csv\n"
      "  dp_nli --model bert-base-cased --train multinli_1.0_train.jsonl --premise sentence1 --hypothesis sentence2 "
      "--label gold_label");
  app.add_option("--model", args.model, "folder of a BERT, or bert-tiny, -mini, -small, -base with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer; default: the model's, or data/reviews-vocab");
  app.add_option("--train", args.train, "CSV, TSV or JSON Lines file to train on");
  app.add_option("--test", args.test, "file to measure the accuracy on at the end");
  app.add_option("--premise", args.premise, "column of the premise");
  app.add_option("--hypothesis", args.hypothesis, "column of the hypothesis");
  app.add_option("--label", args.label,
                 "column of the label: entailment, neutral, contradiction; other rows are skipped");
  app.add_option("--columns", args.columns, "names of all columns of a TSV file without a header and quotes")
      ->delimiter(',');
  app.add_option("--batch_size", args.batch_size, "pairs per step, over all replicas")->check(CLI::Range(1, 1 << 30));
  app.add_option("--max_length", args.max_length, "tokens of the longest pair; the longer text is cut")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--replicas", args.replicas, "replicas of DataParallel; 0: one for each device, here each core")
      ->check(CLI::Range(0, 1024));
  app.add_option("--trace", args.trace, "file for a trace of step 3; its parts are printed, too")->option_text("FILE");
  app.add_option("--steps", args.steps, "number of the last step")->check(CLI::Range(0, 1 << 30));
  app.add_option("--epochs", args.epochs, "how often to go through the file at most")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate of Adam; default: 3e-5 for a folder's model, 5e-4 for random weights");
  return run_example(app, argc, argv, [&] {
    if (args.tokenizer.empty()) {
      args.tokenizer = std::filesystem::is_directory(args.model) ? args.model : "data/reviews-vocab";
    }
    train(args);
  });
}
