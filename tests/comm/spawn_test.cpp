#include "lockstep/comm/spawn.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/blas.h"
#include "tests/support/fresh_process.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

constexpr const char* kNoFork = "the thread sanitizer has a thread of its own, and spawn forks beside no other";

class Spawn : public ::testing::TestWithParam<RanksAs> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer && GetParam() == RanksAs::Processes) GTEST_SKIP() << kNoFork;
  }
  void run(const std::function<void(const SpawnOptions&)>& body) {
    SpawnOptions options;
    options.ranks_as = GetParam();
    options.timeout = std::chrono::seconds(30);
    in_a_fresh_process([&] { body(options); });
  }
};
INSTANTIATE_TEST_SUITE_P(RanksAs, Spawn, ::testing::Values(RanksAs::Processes, RanksAs::Threads),
                         [](const auto& test) { return test.param == RanksAs::Processes ? "Processes" : "Threads"; });

TEST_P(Spawn, ConnectsAllRanks) {
  for (const int world_size : {1, 3}) {
    run([&](const SpawnOptions& options) {
      spawn(
          world_size,
          [&](const std::shared_ptr<Communicator>& group) {
            at::Tensor sum = at::full({10}, group->rank() + 1, at::kFloat);
            group->all_reduce(sum);
            const float want = world_size == 1 ? 1.0F : 6.0F;
            if (group->world_size() != world_size || sum[9].item<float>() != want)
              throw std::runtime_error("wrong sum");
          },
          options);
    });
  }
}

TEST_P(Spawn, ThrowsWhatTheFirstRankToFailThrew) {
  run([](const SpawnOptions& options) {
    try {
      spawn(
          3,
          [](const std::shared_ptr<Communicator>& group) {
            if (group->rank() == 1) throw Error("the third file is broken", "reader", "fix it");
            group->barrier();
          },
          options);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("the third file is broken"), std::string::npos) << error.what();
      EXPECT_EQ(error.fix(), "fix it");
    }
  });
}

TEST_P(Spawn, KeepsTimeoutsApart) {
  run([](SpawnOptions options) {
    options.timeout = std::chrono::milliseconds(700);
    const auto late = [](const std::shared_ptr<Communicator>& group) {
      Store& store = *group->membership().store;
      if (group->rank() == 1) store.get("rank 0 has given up", Deadline::after(std::chrono::seconds(60)));
      try {
        group->barrier();
      } catch (const TimeoutError&) {
        if (group->rank() == 0) store.set("rank 0 has given up", "1");
        throw;
      }
    };
    EXPECT_THROW(spawn(2, late, options), TimeoutError);
  });
}

TEST_P(Spawn, RefusesNoRanks) {
  run([](const SpawnOptions& options) {
    EXPECT_THROW(spawn(
                     0, [](const std::shared_ptr<Communicator>&) {}, options),
                 Error);
  });
}

// OpenBLAS with several threads computes one product at a time, so ranks would wait for each other's.
TEST(SpawnThreads, ComputeProductsSideBySide) {
  auto* const set_threads = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  auto* const kind = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (set_threads == nullptr || kind == nullptr || kind() != 1) GTEST_SKIP() << "no OpenBLAS with threads of its own";
  in_a_fresh_process([&] {
    set_threads(2);
    const int before = loaded_blas().num_threads;
    std::array<std::atomic<int>, 2> inside{};
    spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
      inside.at(static_cast<std::size_t>(group->rank())) = loaded_blas().num_threads;
    });
    EXPECT_EQ(inside[0], 1);
    EXPECT_EQ(inside[1], 1);
    EXPECT_EQ(loaded_blas().num_threads, before);
    spawn_threads(1, [&](const std::shared_ptr<Communicator>&) { inside[0] = loaded_blas().num_threads; });
    EXPECT_EQ(inside[0], before) << "one rank has the machine for itself";
  });
}

TEST(SpawnProcesses, NamesTheRankThatWasKilled) {
  if (kThreadSanitizer) GTEST_SKIP() << kNoFork;
  in_a_fresh_process([] {
    try {
      spawn_processes(3, [](const std::shared_ptr<Communicator>& group) {
        group->barrier();
        if (group->rank() == 2) ::raise(SIGKILL);
        group->barrier();
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("rank 2 (process"), std::string::npos) << error.what();
      EXPECT_NE(error.happened().find("signal 9"), std::string::npos) << error.what();
    }
  });
}

TEST(SpawnProcesses, HaveMemoryOfTheirOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << kNoFork;
  in_a_fresh_process([] {
    int value = 1;
    spawn_processes(2, [&](const std::shared_ptr<Communicator>&) { value = 2; });
    EXPECT_EQ(value, 1);
  });
}

TEST(SpawnProcesses, RefusesToForkBesideOtherThreads) {
  in_a_fresh_process([] {
    std::mutex mutex;
    mutex.lock();
    std::thread other([&] { const std::lock_guard<std::mutex> wait(mutex); });
    EXPECT_THROW(spawn_processes(2, [](const std::shared_ptr<Communicator>&) {}), Error);
    mutex.unlock();
    other.join();
  });
}

}  // namespace
}  // namespace lockstep
