// Ranks that disagree on an operation: every rank gets an error that names both sides, at once and not at the deadline.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

struct DisagreeingCalls {
  const char* name;
  Contract::Body last_rank;  ///< the call of the last rank
  Contract::Body others;     ///< the call of all other ranks
  const char* last_text;     ///< the last rank's call in the error
  const char* others_text;
};

void all_reduce(Communicator& group, at::Tensor tensor, ReduceOp op = ReduceOp::Sum) { group.all_reduce(tensor, op); }
void broadcast(Communicator& group, at::Tensor tensor, int root) { group.broadcast(tensor, root); }

const std::vector<DisagreeingCalls>& disagreements() {
  static const std::vector<DisagreeingCalls> all = {
      {"another_count", [](Communicator& group) { all_reduce(group, ones(101)); },
       [](Communicator& group) { all_reduce(group, ones(100)); }, "all_reduce #0 (sum) of 101 float",
       "all_reduce #0 (sum) of 100 float"},
      {"another_large_count", [](Communicator& group) { all_reduce(group, ones(3000001)); },
       [](Communicator& group) { all_reduce(group, ones(3000000)); }, "of 3000001 float", "of 3000000 float"},
      {"nothing_against_something", [](Communicator& group) { all_reduce(group, ones(0)); },
       [](Communicator& group) { all_reduce(group, ones(5)); }, "of 0 float", "of 5 float"},
      {"another_dtype", [](Communicator& group) { all_reduce(group, ones(10, at::kInt)); },
       [](Communicator& group) { all_reduce(group, ones(10)); }, "of 10 int", "of 10 float"},
      {"another_dtype_of_bytes", [](Communicator& group) { broadcast(group, ones(10, at::kBool), 0); },
       [](Communicator& group) { broadcast(group, ones(10, at::kChar), 0); }, "of 10 bool", "of 10 char"},
      {"another_reduction", [](Communicator& group) { all_reduce(group, ones(10), ReduceOp::Max); },
       [](Communicator& group) { all_reduce(group, ones(10)); }, "all_reduce #0 (max)", "all_reduce #0 (sum)"},
      {"another_operation", [](Communicator& group) { broadcast(group, ones(10), 0); },
       [](Communicator& group) { all_reduce(group, ones(10)); }, "broadcast #0 (root 0)", "all_reduce #0 (sum)"},
      {"another_root", [](Communicator& group) { broadcast(group, ones(10), 1); },
       [](Communicator& group) { broadcast(group, ones(10), 0); }, "broadcast #0 (root 1)", "broadcast #0 (root 0)"},
      {"one_operation_more",
       [](Communicator& group) {
         for (int i = 0; i < 4; ++i) all_reduce(group, ones(10));
       },
       [](Communicator& group) {
         for (int i = 0; i < 3; ++i) all_reduce(group, ones(10));
         group.barrier();
       },
       "all_reduce #3 (sum)", "barrier #3"},
  };
  return all;
}

class Disagreement : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Disagreement, ::testing::ValuesIn(placements_for_failures()), placement_name);

TEST_P(Disagreement, NamesBothSidesOnEveryRank) {
  for (const DisagreeingCalls& c : disagreements()) {
    const std::vector<RankOutcome> ends = ends_of([&](Communicator& group) {
      const bool last = group.rank() == group.world_size() - 1;
      (last ? c.last_rank : c.others)(group);
      group.barrier();  // a rank that has all it needs stays to get the error
    });
    const std::string last_name = "rank " + std::to_string(ends.size() - 1) + " on ";
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      const RankOutcome& end = ends[rank];
      EXPECT_TRUE(end.failed) << c.name;
      EXPECT_FALSE(end.timed_out) << c.name << ": " << end.text;
      EXPECT_EQ(end.signal, 0) << c.name;
      for (const std::string& want : {std::string(c.last_text), std::string(c.others_text), last_name}) {
        EXPECT_NE(end.text.find(want), std::string::npos)
            << c.name << ", rank " << rank << " does not say \"" << want << "\": " << end.text;
      }
    }
  }
}

TEST_P(Disagreement, OfSenderAndReceiver) {
  const std::vector<RankOutcome> ends = ends_of([](Communicator& group) {
    at::Tensor tensor = ones(group.rank() == 0 ? 10 : 11);
    if (group.rank() == 0) group.send(tensor, 1, 3);
    if (group.rank() == 1) group.recv(tensor, 0, 3);
    group.barrier();
  });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    EXPECT_FALSE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find("(to rank 1) of 10 float"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("(from rank 0) of 11 float"), std::string::npos) << end.text;
  }
}

TEST_P(Disagreement, EndsTheGroup) {
  each_rank([](Communicator& group) {
    at::Tensor tensor = ones(group.rank() == 0 ? 1 : 2);
    EXPECT_THROW(group.all_reduce(tensor), Error);
    EXPECT_THROW(group.barrier(), Error);
    EXPECT_THROW(group.all_reduce_async(tensor)->wait(), Error);
  });
}

}  // namespace
}  // namespace lockstep
