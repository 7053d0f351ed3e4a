// One rank that trains a shipped model for a few steps, on hosts that are pretended, and measures what the ranks of
// each host hold when a forward has ended. Rank 0 prints one JSON object: {"host_bytes": [..., ...]}, beyond what was
// there before the model.
#include <ATen/ops/zeros.h>
#include <malloc.h>
#include <torch/optim/adam.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/factory.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/registry.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/memory/kernel_memory.h"
#include "tests/support/pretended_hosts.h"

namespace ls = lockstep;

namespace {

// The least of these counts: a thread of an engine may still have what its last operation took.
constexpr int kMeasuredSteps = 3;

struct Arguments {
  std::string model = "bert-tiny";
  std::int64_t batch = 1;
  std::int64_t seq = 16;
  int hosts = 1;
  int stage = 0;
  int steps = 5;
  double bucket_mb = 0;
  bool bf16 = false;
  bool keeps_freed = false;
};

// Memory of this process that no file backs, in bytes: a page that R processes have touched counts 1/R in each.
double proportional_bytes(bool keeps_freed) {
  if (!keeps_freed) ::malloc_trim(0);
  const auto mib = [](const char* key) { return std::max(0.0, ls::mib_by_kernel("smaps_rollup", key)); };
  return (mib("Pss_Anon") + mib("Pss_Shmem")) * (1 << 20);
}

// By host. Collective.
std::vector<double> bytes_of_hosts(ls::Communicator& group, const Arguments& args) {
  const int hosts = args.hosts;
  group.barrier();
  at::Tensor bytes = at::zeros({hosts}, at::kDouble);
  bytes[group.rank() % hosts] = proportional_bytes(args.keeps_freed);
  group.barrier();
  group.all_reduce(bytes);
  const auto* const first = bytes.data_ptr<double>();
  return {first, first + hosts};
}

std::vector<double> measure(const Arguments& args, const std::shared_ptr<ls::Communicator>& group) {
  const std::vector<double> before = bytes_of_hosts(*group, args);
  const auto model = ls::make_model(args.model);
  ls::RandomBatchOptions shape;
  shape.size = args.batch;
  shape.sequence_length = args.seq;
  const ls::Batch batch = model->random_batch(shape);
  ls::DistributedDataParallelOptions options;
  options.process_group = group;
  if (args.bucket_mb > 0) options.bucket_cap_mb = args.bucket_mb;
  if (args.bf16) options.compute_dtype = at::kBFloat16;
  ls::DistributedDataParallel<std::shared_ptr<ls::Model>> ddp(model, options);
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  ls::FuseOptions how;
  how.stage = args.stage;
  if (args.stage > 0) ddp.fuse(optimizer, how);
  std::vector<double> least;
  for (int step = 0; step < args.steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = [&] {
      const ls::Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, args.bf16);
      return model->loss(ddp(batch), batch).mean();
    }();
    if (step + kMeasuredSteps >= args.steps) {
      const std::vector<double> now = bytes_of_hosts(*group, args);
      if (least.empty()) least = now;
      for (std::size_t host = 0; host < now.size(); ++host) least[host] = std::min(least[host], now[host]);
    }
    loss.backward();
    optimizer.step();
  }
  for (std::size_t host = 0; host < least.size(); ++host) least[host] -= before[host];
  return least;
}

void run(const Arguments& args) {
  ls::Membership membership = ls::rendezvous({});
  if (args.hosts > 1) membership = ls::on_hosts(std::move(membership), args.hosts);
  const std::shared_ptr<ls::Communicator> group = ls::make_communicator("", membership);
  const std::vector<double> bytes = measure(args, group);
  std::string text;
  for (const double each : bytes) text += (text.empty() ? "" : ", ") + std::to_string(static_cast<std::int64_t>(each));
  if (group->rank() == 0) std::printf("{\"host_bytes\": [%s]}\n", text.c_str());
  group->barrier();
  membership.store->finish(ls::Deadline::after(std::chrono::seconds(60)));  // no rank ends while another one waits
}

}  // namespace

int main(int argc, char** argv) {
  // One arena, because malloc_trim does not give back the top of another thread's.
  ::mallopt(M_ARENA_MAX, 1);
  Arguments args;
  CLI::App app("One rank of a training whose memory is measured.");
  app.add_option("--model", args.model);
  app.add_option("--batch", args.batch);
  app.add_option("--seq", args.seq);
  app.add_option("--hosts", args.hosts);
  app.add_option("--stage", args.stage);
  app.add_option("--steps", args.steps);
  app.add_option("--bucket-mb", args.bucket_mb);
  app.add_flag("--bf16", args.bf16, "forward computes in bf16");
  app.add_flag("--keep-freed", args.keeps_freed, "count memory that was freed and that malloc keeps");
  CLI11_PARSE(app, argc, argv);
  try {
    run(args);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
