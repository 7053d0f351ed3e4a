#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/group_place.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/length_grouped_sampler.h"
#include "lockstep/data/torch_data_sampler.h"
#include "tests/support/fresh_process.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Indices = std::vector<std::int64_t>;

// Samplers without options, of 5 samples: what PyTorch 1.13's DistributedSampler(range(5)) gave to each of 2 ranks,
// and what the headers of the others say.
void expect_shares_of_pytorch(int rank) {
  const std::array<Indices, 2> padded{Indices{4, 1, 2}, Indices{0, 3, 4}};
  const std::array<Indices, 2> exact{Indices{0, 2, 4}, Indices{1, 3}};
  EXPECT_EQ(DistributedSampler(5).indices(), padded[rank]);
  EXPECT_EQ(TorchDataSampler(5).sampler().indices(), padded[rank]);
  EXPECT_EQ(ExactDistributedSampler(5).indices(), exact[rank]);
  // Texts of equal lengths, in one batch, stay in the permutation's order.
  LengthGroupedSamplerOptions grouped;
  grouped.batch_size = 5;
  EXPECT_EQ(LengthGroupedSampler({7, 7, 7, 7, 7}, grouped).indices(), padded[rank]);
}

std::string error_without_group(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_errors_without_group() {
  for (const std::function<void()>& make : std::vector<std::function<void()>>{
           [] { DistributedSampler(5); }, [] { ExactDistributedSampler(5); }, [] { TorchDataSampler(5); },
           [] {
             LengthGroupedSampler({1, 2});
           }}) {
    const std::string text = error_without_group(make);
    EXPECT_NE(text.find("num_replicas is not set, and there is no default process group"), std::string::npos) << text;
    EXPECT_NE(text.find("call init_process_group before"), std::string::npos) << text;
  }
  const std::string text = error_without_group([] { DistributedSampler(5, {2}); });
  EXPECT_NE(text.find("rank is not set"), std::string::npos) << text;
}

TEST(SamplersOfGroup, TakeTheRankOfTheirThread) {
  spawn_threads(2, [](const std::shared_ptr<Communicator>& group) { expect_shares_of_pytorch(group->rank()); });
  expect_errors_without_group();
}

// It is not known to which rank such a thread belongs, and the process's group has other ranks.
TEST(SamplersOfGroup, AreToldTheirShareInThreadsThatARankStarts) {
  set_default_place(GroupPlace{1, 4});
  spawn_threads(2, [](const std::shared_ptr<Communicator>& group) {
    std::thread([&group] {
      const std::string text = error_without_group([] { DistributedSampler(5, {}); });
      EXPECT_NE(text.find("a thread that a rank of spawn_threads has started"), std::string::npos) << text;
      EXPECT_EQ(DistributedSampler(5, {2, group->rank(), false}).indices().front(), group->rank());
    }).join();
  });
  EXPECT_EQ(DistributedSampler(5, {{}, {}, false}).indices().front(), 1);
  set_default_place(std::nullopt);
}

TEST(SamplersOfGroup, TakeTheDefaultGroupOfTheirProcess) {
  const TemporaryFolder folder;
  run_ranks_as_processes(2, [&](const Membership& membership) {
    expect_errors_without_group();
    init_process_group("gloo", "file://" + (folder / "meeting"), 2, membership.rank);
    expect_shares_of_pytorch(membership.rank);
    // An option that is set is not taken from the group.
    EXPECT_EQ(DistributedSampler(5, {1, 0}).size(), 5);
    EXPECT_EQ(DistributedSampler(5, {{}, 1 - membership.rank, false}).indices().front(), 1 - membership.rank);
    destroy_process_group();
    expect_errors_without_group();
  });
}

TEST(SamplersOfGroup, TakeTheirPlaceAmongSpawnedProcesses) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer has a thread of its own, and spawn forks beside no other";
  in_a_fresh_process([] {
    SpawnOptions options;
    options.timeout = std::chrono::seconds(30);
    spawn_processes(
        2,
        [](const std::shared_ptr<Communicator>& group) {
          expect_shares_of_pytorch(group->rank());
          if (::testing::Test::HasFailure()) throw std::runtime_error("wrong shares");
        },
        options);
  });
}

TEST(SamplersOfGroup, GiveOneReplicaAllOnEveryRank) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const ThreadPlace place({membership.rank, membership.world_size});
    EXPECT_EQ(ExactDistributedSampler(3, {1}).indices(), (Indices{0, 1, 2})) << "rank " << membership.rank;
  });
}

TEST(SamplersOfGroup, NeedNoGroupForOneReplica) {
  EXPECT_EQ(DistributedSampler(3, {1, {}, false}).indices(), (Indices{0, 1, 2}));
  EXPECT_EQ(ExactDistributedSampler(3, {1}).indices(), (Indices{0, 1, 2}));
  EXPECT_EQ(LengthGroupedSampler({7, 7, 7, 7, 7}, {5, 1}).indices(), (Indices{4, 0, 1, 3, 2}));
}

}  // namespace
}  // namespace lockstep
