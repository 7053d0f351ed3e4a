// Tensors of one call that share memory: refused before anything is sent, or handled correctly.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class Overlaps : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Overlaps, ::testing::ValuesIn(placements({1, 2, 3})), placement_name);

struct OverlappingCall {
  const char* name;
  Contract::Body call;
  const char* says;
};

at::Tensor numbers(std::int64_t count) { return at::arange(count, at::kFloat); }

const std::vector<OverlappingCall>& overlapping_calls() {
  static const std::vector<OverlappingCall> all = {
      {"all_to_all_in_place",
       [](Communicator& g) {
         auto t = numbers(2 * g.world_size());
         g.all_to_all(t, t);
       },
       "overlap"},
      {"all_to_all_shifted",
       [](Communicator& g) {
         auto t = numbers(2 * g.world_size() + 1);
         g.all_to_all(t.narrow(0, 1, 2 * g.world_size()), t.narrow(0, 0, 2 * g.world_size()));
       },
       "overlap"},
      {"all_gather_of_anothers_place",
       [](Communicator& g) {
         auto t = numbers(3 * g.world_size() + 1);
         g.all_gather(t.narrow(0, 0, 3 * g.world_size()), t.narrow(0, 3 * g.rank() + 1, 3));
       },
       "this rank's share"},
      {"gather_of_anothers_place",
       [](Communicator& g) {
         auto t = numbers(3 * g.world_size() + 1);
         g.gather(t.narrow(0, 0, 3 * g.world_size()), t.narrow(0, 3 * g.rank() + 1, 3), g.rank());
       },
       "this rank's share"},
      {"reduce_scatter_to_anothers_place",
       [](Communicator& g) {
         auto t = numbers(3 * g.world_size() + 1);
         g.reduce_scatter(t.narrow(0, 3 * g.rank() + 1, 3), t.narrow(0, 0, 3 * g.world_size()));
       },
       "this rank's share"},
      {"scatter_to_anothers_place",
       [](Communicator& g) {
         auto t = numbers(3 * g.world_size() + 1);
         g.scatter(t.narrow(0, 3 * g.rank() + 1, 3), t.narrow(0, 0, 3 * g.world_size()), g.rank());
       },
       "this rank's share"},
      {"asynchronous_overlap",
       [](Communicator& g) {
         auto t = numbers(2 * g.world_size());
         g.all_to_all_async(t, t);
       },
       "overlap"},
      {"expanded", [](Communicator& g) { g.all_reduce(numbers(1).expand({5})); }, "one place in memory"},
  };
  return all;
}

TEST_P(Overlaps, AreRefusedAndTheGroupLivesOn) {
  each_rank([](Communicator& group) {
    for (const OverlappingCall& c : overlapping_calls()) {
      try {
        c.call(group);
        ADD_FAILURE() << c.name << " was accepted";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << c.name << ": " << error.what();
      }
    }
    const at::Tensor tensor = at::ones({10});
    group.all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(group.world_size()).all().item<bool>());
  });
}

TEST_P(Overlaps, AShareMayBeThisRanksPlaceInTheWhole) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    for (const std::int64_t count : {5, 50000}) {
      const auto place_in = [&](const at::Tensor& whole) { return whole.narrow(0, group.rank() * count, count); };
      const at::Tensor ranks = at::arange(size, at::kFloat).repeat_interleave(count);
      const at::Tensor gathered = at::full({size * count}, -1, at::kFloat);
      place_in(gathered).fill_(group.rank());
      group.all_gather(gathered, place_in(gathered));
      EXPECT_TRUE(gathered.equal(ranks)) << count;

      const at::Tensor summed = ranks.clone();
      group.reduce_scatter(place_in(summed), summed);
      EXPECT_TRUE(place_in(summed).eq(size * group.rank()).all().item<bool>()) << count;

      for (int root = 0; root < size; ++root) {
        const at::Tensor whole = at::full({size * count}, -1, at::kFloat);
        place_in(whole).fill_(group.rank());
        group.gather(whole, place_in(whole), root);
        if (group.rank() == root) {
          EXPECT_TRUE(whole.equal(ranks)) << count;
        }
        group.scatter(place_in(whole), whole, root);
        EXPECT_TRUE(place_in(whole).eq(group.rank()).all().item<bool>()) << count;
      }
    }
  });
}

TEST_P(Overlaps, OfTensorsThatAreCopiedDoNoHarm) {
  each_rank([](Communicator& group) {
    const int size = group.world_size();
    if (size == 1) return;  // one row is contiguous
    const at::Tensor block = at::arange(size, at::kFloat).add(10 * group.rank()).repeat({2, 1}).t();  // [size, 2]
    group.all_to_all(block, block);
    EXPECT_TRUE(block.select(1, 0).equal(at::arange(size, at::kFloat).mul(10).add(group.rank())));
  });
}

}  // namespace
}  // namespace lockstep
