// Messages over shared memory that are received in another order than they were sent in: one that is in the way is
// kept.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class TaggedMessages : public Contract {};
std::vector<Placement> with_channels() {
  std::vector<Placement> found;
  for (const Placement& placement : placements({2, 3})) {
    if (placement.engine == "shm" || placement.engine == "thread") found.push_back(placement);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Engines, TaggedMessages, ::testing::ValuesIn(with_channels()), placement_name);

TEST_P(TaggedMessages, AreTakenInTheOrderOfTheReceiver) {
  each_rank([](Communicator& group) {
    const int next = (group.rank() + 1) % group.world_size();
    const int previous = (group.rank() + group.world_size() - 1) % group.world_size();
    for (const std::int64_t count : {1, 500000}) {  // the larger ones are many pieces of a channel
      std::vector<std::shared_ptr<Work>> sent;
      for (int i = 0; i < 6; ++i) sent.push_back(group.isend(at::full({count + i}, i), next, /*tag=*/i % 3));
      for (const int i : {2, 1, 4, 0, 3, 5}) {  // those of one tag in their order
        at::Tensor got = at::full({count + i}, -1);
        group.recv(got, previous, /*tag=*/i % 3);
        EXPECT_TRUE(got.eq(i).all().item<bool>()) << i;
      }
      for (const auto& work : sent) work->wait();
    }
  });
}

}  // namespace
}  // namespace lockstep
