#include "lockstep/comm/spawn.h"

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/group_place.h"
#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/inner_ranks.h"
#include "lockstep/net/store/memory_store.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/start/kernel_choice.h"

namespace lockstep {
namespace {

// The first failure of any rank: later ones follow from it.
class FirstFailure {
 public:
  void record(std::exception_ptr failure) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void run_threads(int world_size, const RankFunction& body, const SpawnOptions& options) {
  keep_freed_memory();
  check_kernels();
  const auto store = std::make_shared<MemoryStore>();
  const std::vector<Membership> memberships = thread_memberships(world_size, options.timeout, store);
  const ComputeShare share = share_cores_of_process(memberships.size(), 0, /*pin=*/false);
  std::optional<SideBySideProducts> products;
  if (world_size > 1) products.emplace();
  FirstFailure failure;
  std::vector<std::thread> threads;
  for (const Membership& membership : memberships) {
    threads.emplace_back([&, membership] {
      at::set_num_threads(share.threads);
      const ThreadPlace place(GroupPlace{membership.rank, membership.world_size});
      std::shared_ptr<Communicator> group;
      try {
        group = make_communicator(options.engine, membership);
        body(group);
      } catch (...) {
        const auto current = std::current_exception();
        failure.record(current);
        const std::string cause = text_of(current);
        store->mark_lost(membership.rank, cause.substr(0, cause.find('\n')));
        if (group) group->abort(cause.substr(0, cause.find('\n')));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  failure.rethrow();
}

}  // namespace

void spawn(int world_size, const RankFunction& body, const SpawnOptions& options) {
  if (options.ranks_as == RanksAs::Threads) {
    spawn_threads(world_size, body, options);
  } else {
    spawn_processes(world_size, body, options);
  }
}

void spawn_threads(int world_size, const RankFunction& body, const SpawnOptions& options) {
  run_inner_ranks([&] { run_threads(world_size, body, options); });
}

}  // namespace lockstep
