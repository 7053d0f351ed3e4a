// One rank of `lockstep bench all-reduce`, for Lockstep's own engines; with --threads, all ranks as threads.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/workers/all_reduce_turn.h"
#include "bench/workers/run_worker.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/optim/kernels/large_pages.h"

namespace ls = lockstep;

namespace {

struct Arguments {
  std::string engine;
  std::string folder;
  std::string init_method = "env://";
  std::size_t largest_bytes = 0;
  int threads = 0;
  bool any_memory = false;
};

void run_rank(const Arguments& args, ls::Membership membership) {
  const auto communicator = ls::make_communicator(args.engine == "bound" ? "" : args.engine, std::move(membership));
  const std::size_t bytes = ls::bench::region_bytes(args.largest_bytes);
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  at::Tensor region =
      args.any_memory || args.engine == "bound" ? at::empty({count}) : communicator->allocate({count}, at::kFloat);
  if (args.engine == "bound") ls::advise_large_pages(region.data_ptr(), region.nbytes());
  region.zero_();
  ls::bench::AllReduceRank rank;
  rank.rank = communicator->rank();
  rank.world_size = communicator->world_size();
  rank.region = region.data_ptr<float>();
  rank.region_bytes = bytes;
  std::vector<at::Tensor> views;
  std::size_t stride = 1;
  if (args.engine != "bound") {
    rank.prepare = [&](std::size_t length, std::size_t step, std::size_t positions) {
      views.clear();
      stride = step;
      for (std::size_t p = 0; p < positions; ++p) {
        views.push_back(region.narrow(0, static_cast<std::int64_t>(p * step), static_cast<std::int64_t>(length)));
      }
    };
    rank.touch = [&](std::size_t offset) {
      // A program has few tensors, so their descriptions are still in the cache.
      if (!views[offset / stride].is_contiguous()) std::abort();
      if (views[offset / stride].data_ptr() == nullptr) std::abort();
    };
    rank.all_reduce = [&](std::size_t offset, std::size_t) { communicator->all_reduce(views[offset / stride]); };
  }
  rank.synchronise = [&] { communicator->barrier(); };
  ls::bench::take_turns(rank, args.folder);
}

void run(const Arguments& args) {
  if (args.threads == 0) {
    ls::RendezvousOptions options;
    options.init_method = args.init_method;
    options.timeout = std::chrono::seconds(120);
    const ls::Membership membership = ls::rendezvous(options);
    run_rank(args, membership);
    membership.store->finish(ls::Deadline::after(std::chrono::seconds(5)));
    return;
  }
  std::vector<std::thread> ranks;
  for (const ls::Membership& membership : ls::thread_memberships(args.threads, std::chrono::seconds(120))) {
    ranks.emplace_back([&args, membership] { run_rank(args, membership); });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Ranks of `lockstep bench all-reduce`.");
  app.add_option("--engine", args.engine)->required();
  app.add_option("--folder", args.folder)->required();
  app.add_option("--largest", args.largest_bytes)->required();
  app.add_option("--init-method", args.init_method);
  app.add_option("--threads", args.threads);
  app.add_flag("--any-memory", args.any_memory);
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
