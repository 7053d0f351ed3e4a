// Trainer with dynamic padding, accuracy and macro-F1, evaluation and a checkpoint each epoch, and the best model at
// the end, on several ranks:
//   lockstep run --nproc-per-node 2 trainer_reviews
//   lockstep run --nproc-per-node 2 trainer_reviews --model bert-base-cased --label-column stars
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/training_flags.h"

namespace ls = lockstep;

struct Arguments {
  std::string model = "bert-tiny", tokenizer = "data/reviews-vocab";
  std::string train = "data/reviews.csv", test = "data/reviews-test.csv", text = "review", label = "division";
};

// A selection of a file's rows, made before anything is tokenized
std::shared_ptr<const ls::TextDataset> some_rows(const std::string& path, std::int64_t samples, const Arguments& args,
                                                 const std::map<std::string, std::int64_t>& labels = {}) {
  ls::TextFileOptions columns;
  columns.texts = {args.text};
  columns.label = args.label;
  columns.labels = labels;
  columns.empty_texts = ls::RowPolicy::Skip;
  const auto rows = ls::open_text_file(path, columns);
  return ls::sample_rows(rows, std::min(samples, rows->size()), 42);
}

std::shared_ptr<ls::Model> load_model(const Arguments& args, const ls::Tokenizer& tokenizer,
                                      const std::vector<std::string>& labels) {
  ls::LoadOptions options;
  options.labels = labels;
  options.tokenizer_size = tokenizer.vocab_size();
  return ls::load_or_make_model(args.model, ls::TextTask::SequenceClassification, options, tokenizer.pad_id()).model;
}

void train(const Arguments& args, const ls::TrainingFlags& flags) {
  // Random weights need larger steps than pretrained ones, and more of them
  const bool is_pretrained = std::filesystem::is_directory(args.model);
  const double learning_rate = is_pretrained ? 2e-5 : 5e-4;
  const std::int64_t batch_size = is_pretrained ? 32 : 8;

  // Define the training arguments; flags on the command line override them
  ls::TrainingArguments training_args;
  training_args.output_dir = "test_trainer";               // Output directory for model checkpoints
  training_args.per_device_train_batch_size = batch_size;  // Batch size per device during training
  training_args.per_device_eval_batch_size = 32;           // Batch size per device during evaluation
  training_args.logging_steps = 10;                        // Number of steps between logging
  training_args.eval_strategy = "epoch";                   // Evaluate at the end of each epoch
  training_args.save_strategy = "epoch";                   // Save checkpoints at the end of each epoch
  training_args.num_train_epochs = 4;                      // Number of training epochs
  training_args.save_total_limit = 3;                      // Maximum number of saved checkpoints
  training_args.learning_rate = learning_rate;             // Learning rate
  training_args.weight_decay = 0.01;                       // Weight decay for regularization
  training_args.metric_for_best_model = "f1";              // Metric to monitor for best model
  training_args.load_best_model_at_end = true;             // Load the best model after training
  training_args = flags.arguments(training_args);
  torch::manual_seed(static_cast<std::uint64_t>(training_args.seed));

  // Subsample for quick experimentation, then tokenize what was sampled
  const auto train_rows = some_rows(args.train, 1000, args);
  const auto eval_rows = some_rows(args.test, 500, args, train_rows->labels());
  std::vector<std::string> labels(train_rows->labels().size());
  for (const auto& [name, id] : train_rows->labels()) labels.at(static_cast<std::size_t>(id)) = name;
  const auto tokenizer = ls::load_tokenizer(args.tokenizer);
  ls::TokenizeOptions truncation;
  truncation.truncation = true;
  truncation.max_length = 128;

  // Load the model, and set the files that the trainer saves beside its weights
  const auto model = load_model(args, tokenizer, labels);
  const auto trainable = ls::adapt<ls::Model>(model);
  trainable->set_files({{"config.json", ls::config_json_of(*model)}});

  // Initialize the Trainer
  ls::TrainerOptions options;
  options.model = trainable;
  options.args = training_args;
  options.train_dataset = ls::tokenize(*train_rows, tokenizer, truncation);
  options.eval_dataset = ls::tokenize(*eval_rows, tokenizer, truncation);
  options.data_collator = ls::DataCollatorWithPadding(tokenizer);
  options.compute_metrics = ls::classification_metrics();  // accuracy and macro-F1
  ls::Trainer trainer(options);

  // Start training
  trainer.train();
  trainer.save_model();
  if (trainer.is_world_process_zero()) tokenizer.save(training_args.output_dir);
  trainer.log_metrics("eval", trainer.evaluate());
}

int main(int argc, char** argv) {
  Arguments args;
  ls::TrainingFlags flags;
  CLI::App app("Fine-tunes a BERT on reviews with Trainer. Start it with `lockstep run`, or alone.");
  app.add_option("--model", args.model, "folder of a BERT, or bert-tiny, -mini, -small, -base with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer");
  app.add_option("--train-file", args.train, "file to train on");
  app.add_option("--validation-file", args.test, "file to evaluate on");
  app.add_option("--text-column", args.text, "column of the text");
  app.add_option("--label-column", args.label, "column of the label: division or stars");
  flags.add(app);
  try {
    app.parse(argc, argv);
    train(args, flags);
    if (ls::is_initialized()) ls::destroy_process_group();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ls::UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
