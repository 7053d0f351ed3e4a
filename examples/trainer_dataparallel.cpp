// Trainer in one process that sees several devices and has no launcher: it uses DataParallel by itself.
//   trainer_dataparallel                  two replicas that share this machine's cores
//   trainer_dataparallel --replicas 1     the same training with one replica; the loss is the same
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/training_flags.h"

namespace ls = lockstep;

void train(const std::string& file, const ls::TrainingFlags& flags) {
  ls::TrainingArguments training_args;
  training_args.output_dir = "results";
  training_args.per_device_train_batch_size = 16;
  training_args.gradient_accumulation_steps = 2;
  training_args.num_train_epochs = 1;
  training_args.learning_rate = 5e-4;
  training_args.logging_steps = 10;
  training_args.save_strategy = "no";
  training_args.replicas = 2;
  training_args = flags.arguments(training_args);
  torch::manual_seed(static_cast<std::uint64_t>(training_args.seed));

  ls::TextFileOptions columns;
  columns.texts = {"review"};
  columns.label = "division";
  const auto rows = ls::open_text_file(file, columns);
  const auto tokenizer = ls::load_tokenizer("data/reviews-vocab");
  ls::TokenizeOptions truncation;
  truncation.truncation = true;
  truncation.max_length = 64;

  ls::ModelOptions sizes;
  sizes.num_labels = static_cast<std::int64_t>(rows->labels().size());
  sizes.vocab_size = tokenizer.vocab_size();
  sizes.dropout = 0;  // with dropout, each number of replicas would draw other numbers

  ls::TrainerOptions options;
  options.model = ls::adapt(ls::make_model("bert-tiny", sizes));
  options.args = training_args;
  options.train_dataset = ls::tokenize(*ls::sample_rows(rows, 1000, 42), tokenizer, truncation);
  options.data_collator = ls::DataCollatorWithPadding(tokenizer);
  ls::Trainer trainer(options);
  trainer.log_metrics("train", trainer.train().metrics);
}

int main(int argc, char** argv) {
  std::string file = "data/reviews.csv";
  ls::TrainingFlags flags;
  CLI::App app("Trains a small BERT in one process on several replicas. Needs no launcher.");
  app.add_option("--train-file", file, "file with columns review and division");
  flags.add(app);
  try {
    app.parse(argc, argv);
    train(file, flags);
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
