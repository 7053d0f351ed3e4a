// Ranks that disagree on an operation: every rank gets an error that names both sides, at once and not at the deadline.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"
#include "tests/support/test_size.h"

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

// The ranks' calls in a group of their own, which ends with them: every rank gets all of `texts` in an error, at once.
void expect_objection(Communicator& whole, const std::function<void(Communicator&)>& calls, const std::string& name,
                      const std::vector<std::string>& texts) {
  const auto group = whole.split(0);
  try {
    calls(*group);
    group->barrier();  // a rank that has all it needs stays to get the error
    ADD_FAILURE() << name << ": rank " << whole.rank() << " got no error";
  } catch (const TimeoutError& error) {
    ADD_FAILURE() << name << ", rank " << whole.rank() << ": " << error.what();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const std::string& want : texts) {
      EXPECT_NE(text.find(want), std::string::npos)
          << name << ", rank " << whole.rank() << " does not say \"" << want << "\": " << text;
    }
  }
}

void expect_objection(Communicator& whole, const DisagreeingCalls& c) {
  const int last = whole.world_size() - 1;
  expect_objection(whole, whole.rank() == last ? c.last_rank : c.others, c.name,
                   {c.last_text, c.others_text, "rank " + std::to_string(last) + " on "});
}

TEST_P(Disagreement, NamesBothSidesOnEveryRank) {
  if (GetParam().engine == "mpi") {  // each case needs new processes, and a start of mpirun
    for (std::size_t i = test_size(1, 0); i < disagreements().size(); i += test_size(3, 1)) {
      each_rank([&](Communicator& whole) { expect_objection(whole, disagreements()[i]); }, RanksOptions());
    }
    return;
  }
  each_rank([](Communicator& whole) {
    for (const DisagreeingCalls& c : disagreements()) expect_objection(whole, c);
  });
}

TEST_P(Disagreement, OfSenderAndReceiver) {
  each_rank_fails([](Communicator& whole) {
    const auto calls = [](Communicator& group) {
      at::Tensor tensor = ones(group.rank() == 0 ? 10 : 11);
      if (group.rank() == 0) group.send(tensor, 1, 3);
      if (group.rank() == 1) group.recv(tensor, 0, 3);
    };
    expect_objection(whole, calls, "of send and recv", {"(to rank 1) of 10 float", "(from rank 0) of 11 float"});
  });
}

TEST_P(Disagreement, EndsTheGroup) {
  each_rank_fails([](Communicator& group) {
    at::Tensor tensor = ones(group.rank() == 0 ? 1 : 2);
    EXPECT_THROW(group.all_reduce(tensor), Error);
    EXPECT_THROW(group.barrier(), Error);
    EXPECT_THROW(group.all_reduce_async(tensor)->wait(), Error);
  });
}

}  // namespace
}  // namespace lockstep
