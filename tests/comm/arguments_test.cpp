// Arguments that are refused before anything is sent: the group stays usable.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class Arguments : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, Arguments, ::testing::ValuesIn(placements({1, 2})), placement_name);

struct RefusedCall {
  const char* name;
  Contract::Body call;
  const char* says;
};

at::Tensor floats(std::int64_t count) { return at::ones({count}, at::kFloat); }

const std::vector<RefusedCall>& refused_calls() {
  static const std::vector<RefusedCall> all = {
      {"root_too_large",
       [](Communicator& g) {
         auto t = floats(2);
         g.broadcast(t, g.world_size());
       },
       "does not exist"},
      {"root_negative",
       [](Communicator& g) {
         auto t = floats(2);
         g.reduce(t, -1);
       },
       "does not exist"},
      {"send_to_self", [](Communicator& g) { g.send(floats(2), g.rank()); }, "send"},
      {"recv_from_self",
       [](Communicator& g) {
         auto t = floats(2);
         g.recv(t, g.rank());
       },
       "recv"},
      {"undefined",
       [](Communicator& g) {
         at::Tensor t;
         g.all_reduce(t);
       },
       "undefined"},
      {"avg_of_integers",
       [](Communicator& g) {
         auto t = at::ones({2}, at::kInt);
         g.all_reduce(t, ReduceOp::Avg);
       },
       "average"},
      {"bool",
       [](Communicator& g) {
         auto t = at::ones({2}, at::kBool);
         g.all_reduce(t);
       },
       "do not support"},
      {"complex",
       [](Communicator& g) {
         auto t = at::ones({2}, at::kComplexFloat);
         g.all_reduce(t);
       },
       "do not support"},
      {"gather_too_small",
       [](Communicator& g) {
         auto t = floats(3 * g.world_size() - 1);
         g.all_gather(t, floats(3));
       },
       "elements"},
      {"scatter_not_divisible",
       [](Communicator& g) {
         auto t = floats(3);
         g.reduce_scatter(t, floats(3 * g.world_size() + 1));
       },
       "elements"},
      {"dtypes_differ",
       [](Communicator& g) {
         auto t = at::ones({3 * g.world_size()}, at::kDouble);
         g.all_gather(t, floats(3));
       },
       "dtype"},
      {"all_to_all_sizes",
       [](Communicator& g) {
         auto t = floats(2 * g.world_size() + 1);
         g.all_to_all(t, floats(2));
       },
       "divisible"},
      {"another_device",
       [](Communicator& g) {
         auto t = at::ones({2}, at::TensorOptions(at::kMeta));
         g.all_reduce(t);
       },
       "meta"},
  };
  return all;
}

TEST_P(Arguments, AreRefusedAndTheGroupLivesOn) {
  each_rank([](Communicator& group) {
    for (const RefusedCall& c : refused_calls()) {
      try {
        c.call(group);
        ADD_FAILURE() << c.name << " was accepted";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << c.name << ": " << error.what();
        EXPECT_NE(error.where().find("rank " + std::to_string(group.rank())), std::string::npos) << error.what();
      }
      at::Tensor tensor = floats(10);
      group.all_reduce(tensor);
      EXPECT_TRUE(tensor.eq(group.world_size()).all().item<bool>()) << c.name;
    }
  });
}

TEST_P(Arguments, MayBeConstAndTemporary) {
  each_rank([](Communicator& group) {
    const at::Tensor parameter = floats(4).requires_grad_(true);
    parameter.mutable_grad() = floats(4);
    group.all_reduce(parameter.grad());
    EXPECT_TRUE(parameter.grad().eq(group.world_size()).all().item<bool>());
    const at::Tensor both = floats(6);
    group.all_reduce(both.narrow(0, 0, 3));
    EXPECT_EQ(both.sum().item<double>(), 3.0 * group.world_size() + 3);
  });
}

TEST(Factory, NamesTheEnginesWhereOneDoesNotExist) {
  run_ranks_as_threads(1, [](const Membership& membership) {
    try {
      make_communicator("carrier-pigeon", membership);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("carrier-pigeon"), std::string::npos);
      for (const Engine& engine : available_engines()) {
        EXPECT_NE(error.happened().find(engine.name), std::string::npos) << error.what();
      }
    }
  });
}

TEST(Factory, OneRankNeedsNoEngine) {
  run_ranks_as_threads(
      1, [](const Membership& membership) { EXPECT_STREQ(make_communicator("", membership)->engine(), "single"); });
}

}  // namespace
}  // namespace lockstep
