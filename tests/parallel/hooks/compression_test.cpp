// Tests hooks that send less: their loss of precision, that it is sent later, and that training converges nevertheless.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/int8_blocks.h"
#include "lockstep/parallel/local_sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using MakeHook = std::function<std::unique_ptr<CommunicationHook>()>;
using Group = std::shared_ptr<Communicator>;

void on_compressing_ranks(int world_size, const std::function<void(Group)>& body) {
  run_ranks_as_threads(world_size, [&](const Membership& membership) { body(make_communicator("", membership)); });
}

TEST(Int8Blocks, LoseAtMostHalfAFactorAndKeepItAsError) {
  for (const std::size_t count : {1, 255, 256, 257, 1000}) {
    std::vector<float> numbers(count), error(count, 0), sum(count, 0);
    for (std::size_t i = 0; i < count; ++i)
      numbers[i] = std::sin(static_cast<float>(i)) * static_cast<float>(1 + i / 256);
    std::vector<std::uint8_t> bytes(int8_bytes(count));
    to_int8(numbers.data(), error.data(), count, bytes.data());
    sum_int8({bytes.data()}, count, 1, sum.data());
    for (std::size_t i = 0; i < count; ++i) {
      const float factor = static_cast<float>(1 + i / 256) / 127;
      EXPECT_NEAR(sum[i], numbers[i], 0.5 * factor * 1.001) << i << " of " << count;
      EXPECT_NEAR(sum[i] + error[i], numbers[i], 1e-5) << i << " of " << count;
    }
  }
}

TEST(Int8Blocks, DoNotHideADivergedTraining) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> numbers(300, 1), error(300, 0), sum(300, 0);
    numbers[3] = bad;
    std::vector<std::uint8_t> bytes(int8_bytes(300));
    to_int8(numbers.data(), error.data(), 300, bytes.data());
    sum_int8({bytes.data()}, 300, 1, sum.data());
    EXPECT_TRUE(std::isnan(sum[3]));
    EXPECT_NEAR(sum[299], 1, 0.01) << "another block is as it was";
  }
}

// Calls the hook as Reducer does.
void carry_out(CommunicationHook& hook, GradBucket& bucket, Communicator& group) {
  if (const auto work = hook.start(bucket, group)) work->wait();
  if (const auto work = hook.start_second(bucket, group)) work->wait();
  hook.finish(bucket, group);
}

// Equal numbers on every rank: ranks are threads here, and share LibTorch's generator.
at::Tensor scattered(std::int64_t count) { return torch::arange(count, torch::kFloat).square().sin(); }

// Over many steps the ranks receive what they gave: nothing is lost permanently.
void expect_sums_agree(int world_size, const MakeHook& make_hook, double tolerance) {
  on_compressing_ranks(world_size, [&](Group group) {
    const auto hook = make_hook();
    const at::Tensor common = scattered(40 * 30 + 7);
    at::Tensor received = torch::zeros_like(common), given = torch::zeros_like(common);
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
      for (int rank = 0; rank < group->world_size(); ++rank) given += common * (rank + 1) / group->world_size();
      GradBucket bucket;
      bucket.is_last = true;
      bucket.buffer = common * (group->rank() + 1);
      bucket.gradients = {bucket.buffer.narrow(0, 0, 1200).view({40, 30}), bucket.buffer.narrow(0, 1200, 7)};
      carry_out(*hook, bucket, *group);
      at::Tensor lowest = bucket.buffer.clone(), highest = bucket.buffer.clone();
      group->all_reduce(lowest, ReduceOp::Min);
      group->all_reduce(highest, ReduceOp::Max);
      EXPECT_TRUE(lowest.equal(highest)) << "ranks differ in step " << step;
      received += bucket.buffer;
    }
    EXPECT_LT((received - given).norm().item<double>() / given.norm().item<double>(), tolerance) << world_size;
  });
}

PowerSGDOptions power(std::int64_t rank, std::int64_t start = 0) {
  PowerSGDOptions options;
  options.matrix_approximation_rank = rank;
  options.start_powerSGD_iter = start;
  return options;
}

TEST(CompressionHooks, GiveAllOfAGradientInTheEnd) {
  for (const int world_size : {1, 2, 3, 4}) {
    expect_sums_agree(world_size, int8_compress_hook, 1e-3);
    expect_sums_agree(
        world_size, [] { return power_sgd_hook(power(4)); }, 0.1);
    expect_sums_agree(
        world_size, [] { return power_sgd_hook(power(1, 1000)); }, 1e-5);  // not compressed yet
  }
}

// Averages in two halves, and records its calls.
class TwoRoundHook : public CommunicationHook {
 public:
  explicit TwoRoundHook(std::vector<std::string>& calls) : calls_(calls) {}
  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    const auto half = bucket.buffer.numel() / 2;
    return communicator.all_reduce_async(bucket.buffer.narrow(0, 0, half), ReduceOp::Avg);
  }
  std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator) override {
    calls_.push_back("second " + std::to_string(bucket.index));
    if (bucket.index == 1) {  // in one round: the rest is sent at once
      at::Tensor rest = second_half(bucket);
      communicator.all_reduce(rest, ReduceOp::Avg);
      return nullptr;
    }
    return communicator.all_reduce_async(second_half(bucket), ReduceOp::Avg);
  }
  void finish(GradBucket& bucket, Communicator&) override {
    calls_.push_back("finish " + std::to_string(bucket.index));
  }

 private:
  static at::Tensor second_half(const GradBucket& bucket) {
    const auto half = bucket.buffer.numel() / 2;
    return bucket.buffer.narrow(0, half, bucket.buffer.numel() - half);
  }
  std::vector<std::string>& calls_;
};

TEST(CommunicationHooks, HaveTheirSecondExchangesUnderWayTogether) {
  on_compressing_ranks(2, [](Group group) {
    torch::nn::Sequential net(torch::nn::Linear(30, 20), torch::nn::Linear(20, 10), torch::nn::Linear(10, 1));
    for (auto& parameter : net->parameters()) torch::nn::init::constant_(parameter, 0.1);
    DistributedDataParallelOptions options;
    options.process_group = group;
    options.bucket_cap_mb = 1e-4;  // a bucket for each parameter
    DistributedDataParallel<torch::nn::Sequential> ddp(net, options);
    std::vector<std::string> calls;
    ddp.register_comm_hook(std::make_unique<TwoRoundHook>(calls));
    ddp(torch::ones({4, 30}) * (group->rank() + 1)).sum().backward();
    const std::size_t buckets = ddp.bucket_names().size();
    ASSERT_GE(buckets, 3u);
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < buckets; ++i) {
      wanted.push_back("second " + std::to_string(i));
      if (i == 1) wanted.push_back("finish 1");
    }
    for (std::size_t i = 0; i < buckets; ++i) {
      if (i != 1) wanted.push_back("finish " + std::to_string(i));
    }
    EXPECT_EQ(calls, wanted);
    // Everything is linear, so the average equals the result for the average input.
    torch::nn::Sequential alone(torch::nn::Linear(30, 20), torch::nn::Linear(20, 10), torch::nn::Linear(10, 1));
    for (auto& parameter : alone->parameters()) torch::nn::init::constant_(parameter, 0.1);
    alone->forward(torch::ones({4, 30}) * 1.5).sum().backward();
    for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
      EXPECT_TRUE(net->parameters()[i].grad().allclose(alone->parameters()[i].grad(), 1e-4)) << i;
    }
  });
}

TEST(PowerSGD, IsExactForAMatrixOfItsRank) {
  on_compressing_ranks(2, [](Group group) {
    const auto hook = power_sgd_hook(power(2));
    const at::Tensor exact = scattered(100).view({50, 2}).mm(scattered(80).view({2, 40}));
    GradBucket bucket;
    for (int step = 0; step < 2; ++step) {  // the first finds the space, the second reuses it
      bucket.buffer = exact.flatten() * (group->rank() == 0 ? 0.5 : 1.5);
      bucket.gradients = {bucket.buffer.view({50, 40})};
      carry_out(*hook, bucket, *group);
    }
    EXPECT_TRUE(bucket.buffer.view({50, 40}).allclose(exact, 1e-3, 1e-4));
  });
}

TEST(PowerSGD, TakesAZeroGradient) {
  on_compressing_ranks(2, [](Group group) {
    const auto hook = power_sgd_hook(power(1));
    GradBucket bucket;
    bucket.buffer = torch::zeros({2000});
    bucket.gradients = {bucket.buffer.view({50, 40})};
    carry_out(*hook, bucket, *group);
    EXPECT_TRUE(bucket.buffer.eq(0).all().item<bool>());
  });
}

TEST(PowerSGD, RefusesWhatMakesNoSense) {
  EXPECT_THROW(power_sgd_hook(power(0)), Error);
  EXPECT_THROW(power_sgd_hook(power(1, -1)), Error);
  PowerSGDOptions options;
  options.min_compression_rate = 0;
  EXPECT_THROW(power_sgd_hook(options), Error);
}

// As torch::nn::Linear's own, but from a generator of this rank's own: ranks are threads, and would share the
// process's.
void set_weights(torch::nn::Module& net) {
  const torch::NoGradGuard no_grad;
  const at::Generator generator = at::detail::createCPUGenerator(11);
  double bound = 1;
  for (at::Tensor& parameter : net.parameters()) {
    if (parameter.dim() == 2) bound = 1 / std::sqrt(static_cast<double>(parameter.size(1)));
    parameter.uniform_(-bound, bound, generator);
  }
}

// Trains a small net on points in two spirals, of which each rank has its own half; returns the final loss.
double spirals_loss(Group group, const std::function<void(DistributedDataParallelBase&)>& set_up,
                    const std::function<void(const std::vector<at::Tensor>&)>& after_step, double lr = 0.2) {
  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                            torch::nn::Linear(64, 2));
  set_weights(*net);
  DistributedDataParallelOptions options;
  options.process_group = group;
  DistributedDataParallel<torch::nn::Sequential> ddp(net, options);
  set_up(ddp);
  const at::Tensor radius = torch::linspace(0.3, 3, 200), side = torch::arange(200).remainder(2);
  const at::Tensor angle = radius * 2 + side * M_PI;
  const at::Tensor points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1),
                   labels = side.to(torch::kLong);
  const auto mine = torch::arange(group->rank(), 200, group->world_size());
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(lr).momentum(0.9));
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(ddp(points.index_select(0, mine)), labels.index_select(0, mine)).backward();
    optimizer.step();
    after_step(net->parameters());
  }
  const torch::NoGradGuard no_grad;
  return torch::nn::functional::cross_entropy(net->forward(points), labels).item<double>();
}

TEST(CompressionHooks, TrainAsFarAsPlainAverages) {
  on_compressing_ranks(2, [](Group group) {
    const auto with = [&](const MakeHook& hook) {
      return spirals_loss(
          group, [&](DistributedDataParallelBase& ddp) { ddp.register_comm_hook(hook()); }, [](const auto&) {});
    };
    const double plain = with(allreduce_hook);
    EXPECT_LT(plain, 0.1);
    EXPECT_LT(with(int8_compress_hook), plain + 0.05);
    EXPECT_LT(with([] { return power_sgd_hook(power(2, 10)); }), plain + 0.1);
  });
}

// With the other tests' rate of 0.2, whether these trainings diverge hangs on how a product is rounded.
TEST(LocalSGD, RanksThatMeetNowAndThenTrainAsFar) {
  on_compressing_ranks(2, [](Group group) {
    PostLocalSGDOptions post_local;
    post_local.start_localSGD_iter = 50;
    post_local.post_local_gradient_allreduce = false;  // each rank by itself
    PeriodicModelAverager averager(8, 50, group);
    const double averaged = spirals_loss(
        group, [&](DistributedDataParallelBase& ddp) { ddp.register_comm_hook(post_local_sgd_hook(post_local)); },
        [&](const std::vector<at::Tensor>& parameters) { averager.average_parameters(parameters); }, 0.1);
    EXPECT_LT(averaged, 0.2);

    std::unique_ptr<DiLoCo> outer;
    DiLoCoOptions options;
    options.sync_every = 10;
    const auto set_up = [&](DistributedDataParallelBase& ddp) {
      ddp.register_comm_hook(noop_hook());
      std::vector<at::Tensor> parameters;
      for (const auto& entry : ddp.named_parameters()) parameters.push_back(entry.second);
      outer = std::make_unique<DiLoCo>(parameters, options, group);
    };
    const double diloco = spirals_loss(
        group, set_up, [&](const auto&) { outer->step(); }, 0.05);
    EXPECT_LT(diloco, 0.3);
  });
}

TEST(LocalSGD, JoinIsRefusedWhereRanksAreLeftApart) {
  for (const MakeHook& hook : {MakeHook(noop_hook), MakeHook([] { return post_local_sgd_hook({}); })}) {
    on_compressing_ranks(2, [&](Group group) {
      DistributedDataParallelOptions options;
      options.process_group = group;
      DistributedDataParallel<torch::nn::Linear> ddp(torch::nn::Linear(2, 2), options);
      ddp.register_comm_hook(hook());
      EXPECT_THROW(ddp.join([] {}), Error);
    });
  }
}

// One outer step against the formulas of the paper, by hand.
TEST(DiLoCo, MovesByNesterovsMomentum) {
  on_compressing_ranks(2, [](Group group) {
    at::Tensor weight = torch::full({3}, 1.0);
    DiLoCoOptions options;
    options.sync_every = 2;
    DiLoCo outer({weight}, options, group);
    double momentum = 0, met_at = 1;
    for (int round = 0; round < 3; ++round) {
      weight.sub_(group->rank() == 0 ? 0.1 : 0.3);
      EXPECT_FALSE(outer.step());
      EXPECT_TRUE(outer.step());
      const double gradient = 0.2;  // the ranks' mean way
      momentum = 0.9 * momentum + gradient;
      met_at -= 0.7 * (gradient + 0.9 * momentum);
      EXPECT_TRUE(weight.allclose(torch::full({3}, met_at), 1e-5)) << weight << " in round " << round;
    }
  });
}

TEST(PeriodicModelAverager, AveragesInEveryPeriodAfterTheWarmup) {
  on_compressing_ranks(2, [](Group group) {
    PeriodicModelAverager averager(3, 2, group);
    std::vector<int> averaged;
    for (int step = 0; step < 9; ++step) {
      at::Tensor own = torch::full({2}, static_cast<double>(group->rank()));
      averager.average_parameters({own});
      if (own[0].item<double>() == 0.5) averaged.push_back(step);
    }
    EXPECT_EQ(averaged, (std::vector<int>{2, 5, 8}));
  });
}

}  // namespace
}  // namespace lockstep
