#include "lockstep/parallel/distributed_data_parallel.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

DistributedDataParallelOptions on(std::shared_ptr<Communicator> group) {
  DistributedDataParallelOptions options;
  options.process_group = std::move(group);
  return options;
}

void on_ranks(int world_size, const std::function<void(std::shared_ptr<Communicator>)>& body) {
  run_ranks_as_threads(world_size, [&](const Membership& membership) { body(make_communicator("", membership)); });
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DistributedDataParallel, StartsFromTheModelOfRankZero) {
  on_ranks(3, [](std::shared_ptr<Communicator> group) {
    Linear model(4, 2);
    {
      const torch::NoGradGuard no_grad;
      model->weight.fill_(group->rank() + 5);
    }
    DistributedDataParallel ddp(model, on(group));
    EXPECT_TRUE(model->weight.eq(5).all().item<bool>());
    EXPECT_TRUE(model->weight.requires_grad());
  });
}

TEST(DistributedDataParallel, NamesTheFirstParameterThatDiffers) {
  on_ranks(3, [](std::shared_ptr<Communicator> group) {
    Linear model(4, group->rank() == 2 ? 3 : 2);
    const std::string text = error_of([&] { DistributedDataParallel ddp(model, on(group)); });
    EXPECT_NE(text.find("rank 0 has weight: Float [2, 4], rank 2 has weight: Float [3, 4]"), std::string::npos) << text;
  });
}

TEST(DistributedDataParallel, NamesAMissingParameter) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(torch::nn::LinearOptions(4, 2).bias(group->rank() == 0));
    const std::string text = error_of([&] { DistributedDataParallel ddp(model, on(group)); });
    EXPECT_NE(text.find("rank 0 has bias: Float [2], rank 1 has nothing"), std::string::npos) << text;
  });
}

TEST(DistributedDataParallel, NamesAParameterThatIsFrozenOnOneRank) {
  on_ranks(3, [](std::shared_ptr<Communicator> group) {
    Linear model(4, 2);
    if (group->rank() == 1) model->bias.requires_grad_(false);
    const std::string text = error_of([&] { DistributedDataParallel ddp(model, on(group)); });
    EXPECT_NE(
        text.find("parameter 1: rank 0 has bias: Float [2], rank 1 has bias: Float [2], which requires no gradient"),
        std::string::npos)
        << text;
  });
}

// Buckets hold gradients in the parameters' memory order: with different orders, ranks would add up elements that do
// not belong together.
TEST(DistributedDataParallel, NamesAParameterThatLiesInMemoryInAnotherOrder) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    torch::nn::Conv2d model(torch::nn::Conv2dOptions(3, 2, 2));
    if (group->rank() == 1) {
      model->weight.set_data(model->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
    }
    const std::string text = error_of([&] { DistributedDataParallel ddp(model, on(group)); });
    EXPECT_NE(text.find("rank 1 has weight: Float [2, 3, 2, 2], strides [12, 1, 6, 3]"), std::string::npos) << text;
  });
}

TEST(DistributedDataParallel, NamesTheOptionThatDiffers) {
  struct DifferentOption {
    std::function<void(DistributedDataParallelOptions&)> set;
    const char* says;
  };
  const DifferentOption cases[] = {
      {[](auto& options) { options.bucket_cap_mb = 0.5; },
       "rank 0 has bucket_cap_mb = 0, rank 1 has bucket_cap_mb = 0.5"},
      {[](auto& options) { options.static_graph = true; }, "rank 1 has static_graph = true"},
      {[](auto& options) { options.broadcast_buffers = false; }, "rank 1 has broadcast_buffers = false"},
      {[](auto& options) { options.init_sync = false; }, "rank 1 has init_sync = false"},
      {[](auto& options) { options.parameters_and_buffers_to_ignore = {"bias"}; },
       "rank 1 has parameters_and_buffers_to_ignore = {bias}"}};
  for (const DifferentOption& one : cases) {
    on_ranks(2, [&](std::shared_ptr<Communicator> group) {
      Linear model(4, 2);
      auto options = on(group);
      if (group->rank() == 1) one.set(options);
      const std::string text = error_of([&] { DistributedDataParallel ddp(model, options); });
      EXPECT_NE(text.find(one.says), std::string::npos) << text;
    });
  }
}

TEST(DistributedDataParallel, GradientsAreViewsIntoBuckets) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(4, 2);
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::ones({1, 4})).sum().backward();
    const void* memory = model->weight.grad().data_ptr();
    ddp(torch::ones({1, 4})).sum().backward();
    EXPECT_EQ(model->weight.grad().data_ptr(), memory);
    EXPECT_EQ(ddp.bucket_names(), (std::vector<std::vector<std::string>>{{"bias", "weight"}}));
  });
}

TEST(DistributedDataParallel, AveragesOverRanksAndReportsTheStep) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::full({1, 1}, group->rank() == 0 ? 2.0 : 6.0)).sum().backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 4.0F);
    EXPECT_EQ(ddp.last_step().buckets, 1u);
    EXPECT_EQ(ddp.last_step().bytes, 128);  // two gradients, each in its own cache line
    EXPECT_EQ(ddp.last_step().unused_parameters, 0u);
  });
}

TEST(DistributedDataParallel, BackwardInsideNoSyncIsDecidedByForward) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, on(group));
    torch::Tensor loss;
    {
      const auto quiet = ddp.no_sync();
      loss = ddp(torch::full({1, 1}, group->rank() == 0 ? 2.0 : 6.0)).sum();
    }
    loss.backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), group->rank() == 0 ? 2.0F : 6.0F);
  });
}

TEST(DistributedDataParallel, ParameterThatNoRankUsesKeepsNoGradient) {
  struct TwoImpl : torch::nn::Module {
    TwoImpl() { register_module("used", used), register_module("idle", idle); }
    torch::Tensor forward(torch::Tensor x) { return used->forward(x); }
    Linear used{2, 2}, idle{2, 2};
  };
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    auto model = std::make_shared<TwoImpl>();
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::ones({1, 2})).sum().backward();
    EXPECT_TRUE(model->used->weight.grad().defined());
    EXPECT_FALSE(model->idle->weight.grad().defined());
    EXPECT_EQ(ddp.last_step().unused_parameters, 2u);
  });
}

TEST(DistributedDataParallel, StaticGraphThatChangesIsAnErrorThatNamesTheParameter) {
  struct TwoImpl : torch::nn::Module {
    TwoImpl() { register_module("always", always), register_module("sometimes", sometimes); }
    torch::Tensor forward(torch::Tensor x, bool both) {
      return both ? always->forward(x) + sometimes->forward(x) : always->forward(x);
    }
    Linear always{2, 2}, sometimes{2, 2};
  };
  for (const bool first : {true, false}) {
    on_ranks(2, [&](std::shared_ptr<Communicator> group) {
      auto model = std::make_shared<TwoImpl>();
      auto options = on(group);
      options.static_graph = true;
      DistributedDataParallel ddp(model, options);
      ddp(torch::ones({1, 2}), first).sum().backward();
      const std::string text = error_of([&] { ddp(torch::ones({1, 2}), !first).sum().backward(); });
      EXPECT_NE(text.find("sometimes"), std::string::npos) << text;
    });
  }
}

TEST(DistributedDataParallel, BuffersFollowRankZero) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    torch::nn::BatchNorm1d model(3);
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::randn({8, 3}) + 10 * group->rank()).sum().backward();
    const torch::Tensor mine = model->running_mean.clone();
    ddp(torch::randn({8, 3})).sum().backward();
    torch::Tensor all = torch::empty({6});
    group->all_gather(all, mine);
    // The buffers at the start of the second forward: rank 0's after the first step.
    EXPECT_LT(all.slice(0, 0, 3).abs().max().item<float>(), 1.0F);
    EXPECT_GT(all.slice(0, 3, 6).min().item<float>(), 0.5F);
    EXPECT_LT(model->running_mean.abs().max().item<float>(), 1.5F);
    EXPECT_EQ(model->num_batches_tracked.item<std::int64_t>(), 2);
  });
}

TEST(DistributedDataParallel, OneRankMayEvaluateAlone) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    torch::nn::BatchNorm1d model(3);
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::randn({8, 3})).sum().backward();
    if (group->rank() == 0) {
      const torch::NoGradGuard no_grad;
      model->eval();
      ddp(torch::randn({8, 3}));
      model->train();
    }
    ddp(torch::randn({8, 3})).sum().backward();
  });
}

TEST(DistributedDataParallel, WrapsTorchScript) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    torch::jit::Module model("scripted");
    model.register_parameter("weight", torch::full({1}, 3.0 + group->rank(), torch::requires_grad()), false);
    model.define("def forward(self, x):\n  return x * self.weight\n");
    DistributedDataParallel ddp(model, on(group));
    ddp(torch::full({1}, group->rank() == 0 ? 2.0 : 6.0)).toTensor().sum().backward();
    EXPECT_FLOAT_EQ(model.attr("weight").toTensor().item<float>(), 3.0F);
    EXPECT_FLOAT_EQ(model.attr("weight").toTensor().grad().item<float>(), 4.0F);
  });
}

TEST(DistributedDataParallel, IgnoredParametersAreLeftAlone) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    {
      const torch::NoGradGuard no_grad;
      model->bias.fill_(group->rank());
    }
    auto options = on(group);
    options.parameters_and_buffers_to_ignore = {"bias"};
    DistributedDataParallel ddp(model, options);
    EXPECT_FLOAT_EQ(model->bias.item<float>(), static_cast<float>(group->rank()));
    (ddp(torch::ones({1, 1})) * (group->rank() + 1)).sum().backward();
    EXPECT_FLOAT_EQ(model->bias.grad().item<float>(), static_cast<float>(group->rank() + 1));
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 1.5F);
  });
}

TEST(DistributedDataParallel, JoinAveragesOverTheInitialOrTheActiveRanks) {
  for (const bool initial : {true, false}) {
    on_ranks(3, [&](std::shared_ptr<Communicator> group) {
      Linear model(torch::nn::LinearOptions(1, 1).bias(false));
      {
        const torch::NoGradGuard no_grad;
        model->weight.fill_(0);
      }
      DistributedDataParallel ddp(model, on(group));
      torch::optim::SGD optimizer(model->parameters(), 1.0);
      // Rank 0 makes one step, rank 1 two, rank 2 three. Each gradient is 6.
      ddp.join(
          [&] {
            for (int step = 0; step <= group->rank(); ++step) {
              optimizer.zero_grad();
              ddp(torch::full({1, 1}, 6.0)).sum().backward();
              optimizer.step();
            }
          },
          JoinOptions{initial});
      const float want = initial ? -(6.0F + 4.0F + 2.0F) : -18.0F;
      EXPECT_FLOAT_EQ(model->weight.item<float>(), want);
    });
  }
}

// A rank with a shorter loop ends before the others' backward, or before their broadcast of buffers.
TEST(DistributedDataParallel, UnevenLoopsGetTheAdviceToJoin) {
  for (const bool with_buffers : {false, true}) {
    for (const char* engine : {"thread", "gloo"}) {
      const auto ends = ranks_as_threads(2, [&](const Membership& membership) {
        torch::nn::Sequential model(Linear(2, 2));
        if (with_buffers) model->push_back(torch::nn::BatchNorm1d(2));
        DistributedDataParallel ddp(model, on(make_communicator(engine, membership)));
        for (int step = 0; step <= membership.rank; ++step) ddp(torch::randn({4, 2})).sum().backward();
      });
      EXPECT_FALSE(ends[0].failed) << ends[0].text;
      EXPECT_NE(ends[1].text.find("ddp.join("), std::string::npos) << engine << ": " << ends[1].text;
    }
  }
}

// Runs in a child process, which reads the log level again.
TEST(DistributedDataParallel, NotesAForwardWithoutBackward) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  ::setenv("LOCKSTEP_LOG_LEVEL", "debug", 1);
  const auto forwards = [] {
    on_ranks(1, [&](std::shared_ptr<Communicator> group) {
      Linear model(1, 1);
      DistributedDataParallel ddp(model, on(group));
      for (int step = 0; step < 2; ++step) ddp(torch::ones({1, 1}));
    });
    std::_Exit(0);
  };
  EXPECT_EXIT(forwards(), ::testing::ExitedWithCode(0), "synchronised forward has had no backward");
  ::unsetenv("LOCKSTEP_LOG_LEVEL");
}

TEST(DistributedDataParallel, JoinWithBuffersAndNoStepAtAllOnOneRank) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    torch::nn::BatchNorm1d model(3);
    DistributedDataParallel ddp(model, on(group));
    ddp.join([&] {
      for (int step = 0; step < (group->rank() == 0 ? 0 : 4); ++step) ddp(torch::randn({8, 3})).sum().backward();
    });
    EXPECT_EQ(model->num_batches_tracked.item<std::int64_t>(), 4);
  });
}

struct HookCase {
  const char* name;
  double want;
};
class BuiltInHook : public ::testing::TestWithParam<HookCase> {};

TEST_P(BuiltInHook, ReducesOrNot) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, on(group));
    ddp.register_comm_hook(make_communication_hook(GetParam().name));
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      ddp(torch::full({1, 1}, group->rank() == 0 ? 1.0 : 3.0)).sum().backward();
    }
    const float want = GetParam().want > 0 ? static_cast<float>(GetParam().want) : (group->rank() == 0 ? 1.0F : 3.0F);
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), want);
  });
}
INSTANTIATE_TEST_SUITE_P(Table, BuiltInHook,
                         ::testing::Values(HookCase{"allreduce", 2}, HookCase{"fp16", 2}, HookCase{"bf16", 2},
                                           HookCase{"noop", 0}),
                         [](const auto& test) { return test.param.name; });

TEST(DistributedDataParallel, RefusesWhatItCannotDo) {
  on_ranks(1, [](std::shared_ptr<Communicator> group) {
    Linear frozen(1, 1);
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
    EXPECT_NE(error_of([&] { DistributedDataParallel ddp(frozen, on(group)); }).find("no parameter"),
              std::string::npos);

    Linear model(1, 1);
    model->bias.requires_grad_(false);
    DistributedDataParallel ddp(model, on(group));
    model->bias.requires_grad_(true);
    EXPECT_NE(error_of([&] { ddp(torch::ones({1, 1})); }).find("bias"), std::string::npos);
    EXPECT_NE(error_of([&] { make_communication_hook("zip"); }).find("allreduce, fp16"), std::string::npos);

    // A table whose module does not announce sparse gradients.
    struct TableImpl : torch::nn::Module {
      torch::Tensor forward(const torch::Tensor& rows) { return torch::embedding(table, rows, -1, false, true); }
      torch::Tensor table = register_parameter("table", torch::ones({4, 2}));
    };
    auto sparse = std::make_shared<TableImpl>();
    DistributedDataParallel embedding(sparse, on(group));
    EXPECT_NE(
        error_of([&] { embedding(torch::zeros({1}, torch::kLong)).sum().backward(); }).find("\"table\" has a sparse"),
        std::string::npos);
  });
}

TEST(DistributedDataParallel, SecondBackwardOfOneForwardIsAveragedToo) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, on(group));
    const torch::Tensor output = ddp(torch::full({1, 1}, group->rank() == 0 ? 2.0 : 6.0)).sum();
    output.backward({}, /*retain_graph=*/true);
    output.backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 8.0F);
  });
}

TEST(DistributedDataParallel, GradientOfInputsAloneSynchronisesNothing) {
  on_ranks(2, [](std::shared_ptr<Communicator> group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, on(group));
    const torch::Tensor input = torch::ones({1, 1}).requires_grad_(true);
    if (group->rank() == 0) torch::autograd::grad({ddp(input).sum()}, {input});
    ddp(input).sum().backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 1.0F);
  });
}

}  // namespace
}  // namespace lockstep
