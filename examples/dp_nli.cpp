// Natural language inference on pairs of sentences: does the hypothesis follow from the premise, contradict it, or
// neither? Fine-tunes a BERT from a Hugging Face folder, or trains a small one, with DistributedDataParallel:
//   lockstep run --nproc-per-node 2 dp_nli --model bert-base-cased --train multinli_1.0_train.jsonl
//       --premise sentence1 --hypothesis sentence2 --label gold_label
//   lockstep run --nproc-per-node 2 dp_nli --lr 5e-4 --epochs 10 --test data/pairs-test.csv
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace ls = lockstep;

const std::map<std::string, std::int64_t> kLabels{{"entailment", 0}, {"neutral", 1}, {"contradiction", 2}};

struct Arguments {
  std::string model = "bert-tiny", tokenizer, train = "data/pairs.csv", test;
  std::string premise = "premise", hypothesis = "hypothesis", label = "label";
  std::vector<std::string> columns;
  std::int64_t batch_size = 32, max_length = 512, steps = 300;
  int epochs = 1;
  double lr = 3e-5;
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
  const std::vector<std::string> labels{"entailment", "neutral", "contradiction"};
  if (std::filesystem::is_directory(args.model)) {
    ls::LoadOptions options;
    options.labels = labels;
    auto loaded = ls::load_pretrained_model(args.model, ls::TextTask::SequenceClassification, options);
    if (ls::get_rank() == 0) std::printf("%s", loaded.report.text().c_str());
    return loaded.model;
  }
  ls::BertConfig config = ls::bert_config_of_size(args.model.substr(args.model.rfind("bert-", 0) == 0 ? 5 : 0));
  config.vocab_size = tokenizer.vocab_size();
  config.pad_token_id = tokenizer.pad_id();
  config.head.labels = labels;
  return std::make_shared<ls::BertForSequenceClassificationImpl>(config);
}

double accuracy(ls::Model& model, const Arguments& args, const ls::Tokenizer& tokenizer,
                const ls::TokenizeOptions& tokenize, const ls::DataLoaderOptions& options) {
  torch::NoGradGuard no_grad;
  model.eval();
  auto dataset = ls::tokenize(*rows_of(args.test, args), tokenizer, tokenize);
  ls::ExactDistributedSamplerOptions share;
  share.num_replicas = ls::get_world_size();
  share.rank = ls::get_rank();
  ls::DataLoader loader(dataset, options, std::make_shared<ls::ExactDistributedSampler>(dataset->size(), share));
  torch::Tensor correct = torch::zeros({1}, torch::kLong);
  for (auto& batch : loader) correct += model.forward(batch).argmax(1).eq(batch["labels"]).sum();
  ls::default_group()->all_reduce(correct);
  return 100.0 * correct.item<double>() / static_cast<double>(dataset->size());
}

void train(const Arguments& args) {
  ls::init_process_group();
  const int rank = ls::get_rank();
  torch::manual_seed(42);

  // 1. create dataset
  const auto tokenizer = ls::load_tokenizer(args.tokenizer);
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.max_length;
  auto dataset = ls::tokenize(*rows_of(args.train, args), tokenizer, tokenize);
  ls::DistributedSamplerOptions share;
  share.num_replicas = ls::get_world_size();
  share.rank = rank;
  auto sampler = std::make_shared<ls::DistributedSampler>(dataset->size(), share);
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  options.collate = ls::DataCollatorWithPadding(tokenizer);
  ls::DataLoader loader(dataset, options, sampler);

  // 2. create model
  auto model = load_model(args, tokenizer);

  // 3. make data parallel module; after that, each rank draws its own dropout
  ls::DistributedDataParallel ddp(model);
  torch::manual_seed(42 + rank);

  // 4. create optimizer
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(args.lr));
  ddp.fuse(optimizer);  // the ranks share the work of the update

  // 5. start training
  model->train();
  std::int64_t step = 0;
  for (int epoch = 0; epoch < args.epochs && step <= args.steps; ++epoch) {
    sampler->set_epoch(epoch);
    for (auto& batch : loader) {
      optimizer.zero_grad();
      auto loss = model->loss(ddp(batch), batch).mean();
      loss.backward();
      optimizer.step();
      if (step % 10 == 0 && rank == 0)
        std::printf("step:%ld, loss:%.4f\n", static_cast<long>(step), loss.item<double>());
      if (++step > args.steps) break;
    }
  }
  if (!args.test.empty()) {
    const double percent = accuracy(*model, args, tokenizer, tokenize, options);
    if (rank == 0) std::printf("Accuracy on the test pairs: %.2f %%\n", percent);
  }
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line at once, also into a pipe
  Arguments args;
  CLI::App app("Trains a BERT to judge pairs of sentences over several ranks. Start it with `lockstep run`.");
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
  app.add_option("--batch_size", args.batch_size, "pairs per rank and step")->check(CLI::PositiveNumber);
  app.add_option("--max_length", args.max_length, "tokens of the longest pair; the longer text is cut");
  app.add_option("--steps", args.steps, "number of the last step")->check(CLI::NonNegativeNumber);
  app.add_option("--epochs", args.epochs, "how often to go through the file at most")->check(CLI::PositiveNumber);
  app.add_option("--lr", args.lr, "learning rate of Adam");
  CLI11_PARSE(app, argc, argv);
  if (args.tokenizer.empty()) {
    args.tokenizer = std::filesystem::is_directory(args.model) ? args.model : "data/reviews-vocab";
  }
  try {
    train(args);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
