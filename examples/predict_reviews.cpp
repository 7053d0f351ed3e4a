// Predictions of a saved model on any number of ranks, each text once, in the order of the file:
//   predict_reviews --model reviews --output one.txt
//   lockstep run --nproc-per-node 3 predict_reviews --model reviews --output three.txt
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/train/trainer.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string model, data = "data/reviews-test.csv", text = "review", output = "predictions.txt";
  std::int64_t batch_size = 32, max_length = 64;
};

void predict(const Arguments& args) {
  const auto tokenizer = ls::load_tokenizer(args.model);
  ls::LoadOptions options;
  options.tokenizer_size = tokenizer.vocab_size();
  const auto model = ls::load_pretrained_model(args.model, ls::TextTask::SequenceClassification, options).model;
  const auto labels = ls::labels_of(*model);

  ls::TextFileOptions columns;
  columns.texts = {args.text};
  ls::TokenizeOptions truncation;
  truncation.truncation = true;
  truncation.max_length = args.max_length;
  const auto texts = ls::tokenize(*ls::open_text_file(args.data, columns), tokenizer, truncation);

  ls::TrainerOptions trainer_options;
  trainer_options.model = ls::adapt<ls::Model>(model);
  trainer_options.args.per_device_eval_batch_size = args.batch_size;
  trainer_options.data_collator = ls::DataCollatorWithPadding(tokenizer);
  ls::Trainer trainer(trainer_options);
  const ls::PredictionOutput output = trainer.predict(texts);  // on every rank: all texts, in the order of the file
  if (!trainer.is_world_process_zero()) return;

  const torch::Tensor classes = output.predictions.argmax(1);
  std::ofstream file(args.output);
  for (std::int64_t i = 0; i < classes.size(0); ++i) {
    file << labels.at(static_cast<std::size_t>(classes[i].item<std::int64_t>())) << '\n';
  }
  if (!file.flush()) throw ls::Error("the predictions cannot be written", args.output, "free space, or name --output");
  std::printf("%ld predictions written to %s\n", static_cast<long>(classes.size(0)), args.output.c_str());
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Classifies texts with a saved BERT. Start it with `lockstep run`, or alone.", "predict_reviews");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", args.model, "folder of a BERT that classifies, with its tokenizer")->required();
  app.add_option("--data", args.data, "CSV, TSV or JSON Lines file of texts");
  app.add_option("--text", args.text, "column of the text");
  app.add_option("--output", args.output, "file for the predictions, one a line, in the order of the texts");
  app.add_option("--batch_size", args.batch_size, "texts per rank and batch")->check(CLI::Range(1, 1 << 30));
  app.add_option("--max_length", args.max_length, "tokens of the longest text; the rest is cut off")
      ->check(CLI::Range(1, 1 << 30));
  return run_example(app, argc, argv, [&] {
    predict(args);
    if (ls::is_initialized()) ls::destroy_process_group();
  });
}
