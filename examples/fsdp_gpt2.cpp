// A GPT-2 whose weights lie in shards over the ranks, as with PyTorch's FSDP2:
//   lockstep run --nproc-per-node 2 fsdp_gpt2
//   lockstep run --nproc-per-node 2 fsdp_gpt2 --engine tcp      shards on one host, as between hosts
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "require_number.h"
#include "run_example.h"

namespace ls = lockstep;

struct Arguments {
  std::string engine, unit_type = "GPT2Block";
  std::int64_t layers = 12, width = 128, batch_size = 2, seq_len = 32, steps = 10, accumulation = 1;
  double lr = 1e-3;
  bool bf16 = false;
};

void train(const Arguments& args) {
  ls::init_process_group(args.engine);
  say_that_devices_are_unused("fully_shard", ls::get_rank());
  torch::manual_seed(42);
  ls::GPT2Config config;
  config.vocab_size = 512;
  config.n_layer = args.layers;
  config.n_embd = args.width;
  config.n_head = args.width / 32;
  // No weight is in memory until fully_shard makes one after the other, of which each rank keeps a share.
  const std::shared_ptr<ls::Model> model =
      ls::deferred([&] { return std::make_shared<ls::GPT2LMHeadModelImpl>(config); });
  const double weight_mib = [&] {
    double bytes = 0;
    for (const torch::Tensor& weight : model->parameters()) bytes += static_cast<double>(weight.nbytes());
    return bytes / (1 << 20);
  }();

  // The optimizer comes first: the ranks share its update, and each keeps the state of its own share.
  ls::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(args.lr));
  ls::FullyShardOptions options;
  options.unit_types = {args.unit_type};  // for block in model.h: fully_shard(block)
  options.bucket_cap_mb = 0.5;            // messages, no longer than a block
  if (args.bf16) options.mp_policy.param_dtype = torch::kBFloat16;
  auto fsdp = ls::fully_shard(model, optimizer, options);

  ls::RandomBatchOptions shape;
  shape.size = args.batch_size;
  shape.sequence_length = args.seq_len;
  for (std::int64_t step = 0; step < args.steps; ++step) {
    optimizer.zero_grad();
    torch::Tensor loss;
    for (std::int64_t part = 0; part < args.accumulation; ++part) {
      shape.seed = static_cast<std::uint64_t>(part * ls::get_world_size() + ls::get_rank());  // the same in each step
      const ls::Batch batch = model->random_batch(shape);
      fsdp.set_requires_gradient_sync(part + 1 == args.accumulation);
      loss = model->loss(fsdp(batch), batch).mean() / args.accumulation;
      loss.backward();
    }
    ls::clip_grad_norm_(fsdp.parameters(), 1.0);
    optimizer.step();
    require_number(loss, 0, step + 1);
    if (ls::get_rank() == 0) {
      std::printf("Step: %ld, Loss: %.4f\n", static_cast<long>(step + 1), loss.item<double>() * args.accumulation);
    }
  }
  const double most_mib = static_cast<double>(fsdp.peak_weight_bytes()) / (1 << 20);
  std::printf("rank %d held at most %.2f MiB of weights, which are %.2f MiB in all%s\n", ls::get_rank(), most_mib,
              weight_mib, most_mib == 0 ? ": the ranks of this host share one copy" : "");
  fsdp.unshard();  // all weights on every rank, to read or save them
  double sum = 0;
  for (const torch::Tensor& weight : fsdp.parameters()) sum += weight.detach().to(torch::kDouble).sum().item<double>();
  fsdp.reshard();
  std::printf("rank %d: the weights add up to %.9f\n", ls::get_rank(), sum);
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a GPT-2 whose weights lie in shards over the ranks. Start it with `lockstep run`.", "fsdp_gpt2");
  app.option_defaults()->always_capture_default();
  app.footer(
      "Examples:\n  lockstep run --nproc-per-node 2 fsdp_gpt2 --engine tcp --steps 20\n"
      "  lockstep run --nproc-per-node 2 fsdp_gpt2 --engine tcp --accumulation 4 --bf16");
  app.add_option("--engine", args.engine,
                 "tcp, gloo, ...; default: shared memory, of which there is one copy of weights");
  app.add_option("--layers", args.layers, "of the model")->check(CLI::Range(1, 1000));
  app.add_option("--width", args.width, "of each layer, a multiple of 32")->check(CLI::Range(32, 1 << 16));
  app.add_option("--unit_type", args.unit_type, "class of the layers that are gathered one at a time");
  app.add_option("--batch_size", args.batch_size, "texts per rank and step")->check(CLI::Range(1, 1000000));
  app.add_option("--seq_len", args.seq_len, "tokens of each text")->check(CLI::Range(1, 1000000));
  app.add_option("--steps", args.steps, "number of updates")->check(CLI::Range(1, 1000000));
  app.add_option("--accumulation", args.accumulation, "batches of an update")->check(CLI::Range(1, 1000000));
  app.add_option("--lr", args.lr, "learning rate of AdamW");
  app.add_flag("--bf16", args.bf16, "compute in bf16");
  return run_example(app, argc, argv, [&] { train(args); });
}
