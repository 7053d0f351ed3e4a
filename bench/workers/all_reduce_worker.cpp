// One rank of `lockstep bench all-reduce`, for Lockstep's own engines; with --threads, all ranks as threads.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/workers/all_reduce_bound.h"
#include "bench/workers/all_reduce_turn.h"
#include "bench/workers/bare_barrier.h"
#include "bench/workers/run_worker.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/optim/kernels/large_pages.h"

namespace ls = lockstep;

namespace {

constexpr std::size_t kMostSpareBytes = std::size_t{512} << 20;

struct Arguments {
  std::string engine;
  std::string folder;
  std::string init_method = "env://";
  std::size_t largest_bytes = 0;
  int threads = 0;
  bool any_memory = false;
  bool shares_cores = false;
};

ls::bench::AllReduceRank rank_of(ls::Communicator& communicator, const at::Tensor& region) {
  ls::bench::AllReduceRank rank;
  rank.rank = communicator.rank();
  rank.world_size = communicator.world_size();
  rank.region = region.data_ptr<float>();
  rank.region_bytes = region.nbytes();
  rank.synchronise = [&] { communicator.barrier(); };
  return rank;
}

at::Tensor plain_memory(std::int64_t count) {
  const at::Tensor memory = at::empty({count});
  ls::advise_large_pages(memory.data_ptr(), memory.nbytes());
  return memory.zero_();
}

// The bound needs the engine for the memory of its flags alone, and to begin turns together.
void run_bound(const Arguments& args, ls::Communicator& communicator, std::int64_t count) {
  using Word = ls::bench::BareBarrier::Word;
  const at::Tensor region = plain_memory(count);
  const at::Tensor spare = region.nbytes() <= kMostSpareBytes ? plain_memory(count) : at::Tensor();
  const at::Tensor flag = communicator.allocate({1}, at::kLong).zero_();
  const auto flags = communicator.symmetric_memory(flag);
  if (!flags) throw ls::Error("the bound needs ranks that share memory", "bench all-reduce", "use engine shm");
  std::vector<Word*> arrivals;
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    arrivals.push_back(reinterpret_cast<Word*>(flags->copy(rank)));
  }
  communicator.barrier();  // all flags are zero
  ls::bench::BareBarrier barrier(arrivals, communicator.rank(), args.shares_cores);
  ls::bench::AllReduceRank rank = rank_of(communicator, region);
  rank.doubles = true;
  rank.ways = ls::bench::bound_ways(rank.region, spare.defined() ? spare.data_ptr<float>() : nullptr, barrier);
  ls::bench::take_turns(rank, args.folder);
}

void run_engine(const Arguments& args, ls::Communicator& communicator, std::int64_t count) {
  const at::Tensor region = args.any_memory ? at::empty({count}) : communicator.allocate({count}, at::kFloat);
  region.zero_();
  ls::bench::AllReduceRank rank = rank_of(communicator, region);
  std::vector<at::Tensor> views;
  std::size_t stride = 1;
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
  const auto all_reduce = [&](std::size_t offset, std::size_t) { communicator.all_reduce(views[offset / stride]); };
  rank.ways.push_back({all_reduce, rank.region});
  ls::bench::take_turns(rank, args.folder);
}

void run_rank(const Arguments& args, ls::Membership membership) {
  const bool is_bound = args.engine == "bound";
  const auto communicator = ls::make_communicator(is_bound ? "shm" : args.engine, std::move(membership));
  const auto count = static_cast<std::int64_t>(ls::bench::region_bytes(args.largest_bytes) / sizeof(float));
  is_bound ? run_bound(args, *communicator, count) : run_engine(args, *communicator, count);
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
  app.add_flag("--shares-cores", args.shares_cores);
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
