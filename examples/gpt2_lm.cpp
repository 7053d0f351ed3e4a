// Language modelling with GPT-2 on the contexts of SQuAD, on several ranks:
//   lockstep run --nproc-per-node 2 gpt2_lm --model gpt2 --data train-v1.1.json --column context
//   lockstep run --nproc-per-node 2 gpt2_lm --lr 1e-3
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "device.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string model = "gpt2-tiny", tokenizer, data = "data/reviews.csv", column = "review", save;
  std::int64_t batch_size = 4, seq_len = 64, train_step = 100, save_interval = 50;
  double lr = 3e-5;
};

std::shared_ptr<const ls::TextDataset> contexts(const Arguments& args) {
  ls::TextFileOptions columns;
  columns.texts = {args.column};
  columns.empty_texts = ls::RowPolicy::Skip;
  const bool is_squad = std::filesystem::path(args.data).extension() == ".json";
  return is_squad ? ls::read_squad_texts(args.data, columns, ls::SquadRows::Contexts)
                  : ls::open_text_file(args.data, columns);
}

std::shared_ptr<ls::Model> load_model(const Arguments& args, const ls::Tokenizer& tokenizer) {
  ls::LoadOptions options;
  options.tokenizer_size = tokenizer.vocab_size();
  auto loaded = ls::load_or_make_model(args.model, ls::TextTask::CausalLanguageModel, options, tokenizer.pad_id());
  if (ls::get_rank() == 0) std::printf("%s", loaded.report.text().c_str());
  return loaded.model;
}

void train(const Arguments& args) {
  // 1.2. Create model, optimizer and tokenizer
  ls::init_process_group();
  const int rank = ls::get_rank();
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other
  torch::manual_seed(42);
  auto tokenizer = ls::load_tokenizer(args.tokenizer);
  // Add pad token for batch training because GPT2 tokenizer doesn't have pad token.
  if (!tokenizer.special_tokens().eos) {
    throw ls::Error("the tokenizer has no token for the end of a text", args.tokenizer, "name one of a GPT-2");
  }
  tokenizer.set_pad_token(*tokenizer.special_tokens().eos);
  auto model = load_model(args, tokenizer);
  model->to(device);

  // 1.3. Parallelize the model; after that, each rank draws its own dropout
  ls::DistributedDataParallel ddp(model);
  torch::manual_seed(42 + rank);
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(args.lr));
  ddp.fuse(optimizer);  // the ranks share the work of the update

  // 1.4. Load dataset and create dataloader: as many contexts as the steps need, tokenized after they are chosen
  auto rows = contexts(args);
  const std::int64_t needed = args.train_step * args.batch_size * ls::get_world_size();
  if (needed < rows->size()) rows = ls::sample_rows(rows, needed, 42);
  ls::TokenizeOptions tokenize;
  tokenize.truncation = true;
  tokenize.max_length = args.seq_len;
  auto dataset = ls::tokenize(*rows, tokenizer, tokenize);
  auto sampler = std::make_shared<ls::DistributedSampler>(dataset->size());  // shared among the group's ranks
  ls::DataLoaderOptions options;
  options.batch_size = args.batch_size;
  options.collate = ls::DataCollatorForLanguageModeling(tokenizer);
  ls::DataLoader dataloader(dataset, options, sampler);

  // 1.5. Do training as usual
  model->train();
  std::int64_t step = 0;
  for (int epoch = 0; step < args.train_step; ++epoch) {
    sampler->set_epoch(epoch);
    for (auto& batch : dataloader) {
      move_to(batch, device);
      model->zero_grad();
      auto loss = model->loss(ddp(batch), batch).mean();
      loss.backward();
      optimizer.step();
      require_number(loss, epoch, step + 1);
      ++step;
      if (rank == 0 && (step == 1 || step % 10 == 0)) {
        std::printf("Step: %ld, Loss: %.4f\n", static_cast<long>(step), loss.item<double>());
      }
      if (rank == 0 && !args.save.empty() && step % args.save_interval == 0) {
        ls::save_model(*model, args.save);
        tokenizer.save(args.save);
        std::printf("Step: %ld, saved in %s\n", static_cast<long>(step), args.save.c_str());
      }
      if (step == args.train_step) break;
    }
  }
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a GPT-2 to predict the next token over several ranks. Start it with `lockstep run`.");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  lockstep run --nproc-per-node 2 gpt2_lm --model gpt2 --data train-v1.1.json --column context\n"
      "  lockstep run --nproc-per-node 2 gpt2_lm --lr 1e-3 --save trained");
  app.add_option("--model", args.model, "folder of a GPT-2, or gpt2 or gpt2-tiny with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer; default: the model's, or data/bytes-vocab");
  app.add_option("--data", args.data, "SQuAD's JSON, or a CSV, TSV, JSON Lines or text file");
  app.add_option("--column", args.column, "column of the text");
  app.add_option("--batch_size", args.batch_size, "texts per rank and step")->check(CLI::Range(1, 1000000));
  app.add_option("--seq_len", args.seq_len, "tokens of the longest text; the rest is cut off")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--train_step", args.train_step, "number of steps")->check(CLI::Range(1, 1000000));
  app.add_option("--lr", args.lr, "learning rate of Adam");
  app.add_option("--save", args.save, "folder for the model and its tokenizer");
  app.add_option("--save_interval", args.save_interval, "steps between saves")->check(CLI::Range(1, 1000000));
  return run_example(app, argc, argv, [&] {
    if (args.tokenizer.empty()) {
      args.tokenizer = std::filesystem::is_directory(args.model) ? args.model : "data/bytes-vocab";
    }
    train(args);
  });
}
