// OSLO's tutorial of data parallelism: GPT-2 learns the contexts of SQuAD, in a context that supports all launchers.
//   lockstep run --nproc-per-node 4 oslo_gpt2 --model gpt2 --data train-v1.1.json --column context
//   mpirun -np 4 oslo_gpt2        srun -n 4 oslo_gpt2        torchrun --nproc_per_node 4 --no_python oslo_gpt2
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "device.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/parallel_context.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

// 1.1. Initialize some variables
struct Arguments {
  std::string model = "gpt2-tiny", tokenizer = "data/bytes-vocab", data = "data/reviews.csv", column = "review", save;
  std::int64_t batch_size = 4, seq_len = 64, save_interval = 50, train_step = 100;
  int dp_size = 0;
  double lr = 3e-5;
};

void train(const Arguments& args) {
  torch::manual_seed(0);
  // 1.3. Parallelize the model: find the other ranks
  ls::ParallelContextOptions sizes;
  sizes.data_parallel_size = args.dp_size;
  auto parallel_context = ls::ParallelContext::from_env(sizes);
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other

  // 1.2. Create model, optimizer and tokenizer
  auto tokenizer = ls::load_tokenizer(args.tokenizer);
  // Add pad token for batch training because GPT2 tokenizer doesn't have pad token.
  tokenizer.set_pad_token(tokenizer.special_tokens().eos.value());
  ls::LoadOptions load;
  load.tokenizer_size = tokenizer.vocab_size();
  auto model = ls::load_or_make_model(args.model, ls::TextTask::CausalLanguageModel, load, tokenizer.pad_id()).model;
  model->to(device);
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(args.lr));
  ls::ready(model, parallel_context);

  // 1.4. Load dataset and create dataloader
  const int rank = parallel_context->get_local_rank(ls::ParallelMode::Data);
  ls::TextFileOptions columns;
  columns.texts = {args.column};
  columns.empty_texts = ls::RowPolicy::Skip;
  ls::TokenizeOptions truncate;
  truncate.truncation = true;
  truncate.max_length = args.seq_len;
  auto datasets = ls::tokenize(*ls::open_text_file(args.data, columns), tokenizer, truncate);
  ls::DistributedSamplerOptions share;
  share.num_replicas = parallel_context->get_world_size(ls::ParallelMode::Data);  // on all hosts, not only this one
  share.rank = rank;
  auto train_sampler = std::make_shared<ls::DistributedSampler>(datasets->size(), share);
  ls::DataLoaderOptions batches;
  batches.batch_size = args.batch_size;
  batches.collate = ls::DataCollatorForLanguageModeling(tokenizer);
  ls::DataLoader dataloader(datasets, batches, train_sampler);

  // 1.5. Do training as usual
  std::int64_t step = 0;
  for (int epoch = 0; step < args.train_step; ++epoch) {
    train_sampler->set_epoch(epoch);
    for (auto& batch : dataloader) {
      if (step == args.train_step) break;
      move_to(batch, device);
      model->zero_grad();
      auto loss = model->loss(model->forward(batch), batch).mean();
      loss.backward();
      optimizer.step();
      require_number(loss, epoch, step + 1);
      ++step;
      if (rank == 0 && step % 10 == 0) std::printf("Step: %d, Loss: %.4f\n", int(step), loss.item<double>());
      const bool is_saved = step % args.save_interval == 0 || step == args.train_step;
      if (rank == 0 && !args.save.empty() && is_saved) ls::save_model(*model, args.save);
    }
  }
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a GPT-2 over several ranks. Start it with `lockstep run`, torchrun, mpirun or srun.");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", args.model, "folder of a GPT-2, or gpt2 or gpt2-tiny with random weights");
  app.add_option("--tokenizer", args.tokenizer, "folder of its tokenizer");
  app.add_option("--data", args.data, "CSV, TSV, JSON (SQuAD's too), JSON Lines or text file");
  app.add_option("--column", args.column, "column of the text");
  app.add_option("--dp_size", args.dp_size, "number of ranks; 0: as many as were started");
  app.add_option("--batch_size", args.batch_size, "texts per rank and step")->check(CLI::Range(1, 1 << 30));
  app.add_option("--seq_len", args.seq_len, "tokens of the longest text")->check(CLI::Range(1, 1 << 30));
  app.add_option("--train_step", args.train_step, "number of steps")->check(CLI::Range(1, 1 << 30));
  app.add_option("--lr", args.lr, "learning rate of Adam")->check(CLI::NonNegativeNumber);
  app.add_option("--save", args.save, "folder for the model, which is written at intervals and at the end")
      ->option_text("FOLDER");
  app.add_option("--save_interval", args.save_interval, "steps between two writes")->check(CLI::Range(1, 1 << 30));
  return run_example(app, argc, argv, [&] { train(args); });
}
