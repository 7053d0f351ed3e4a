// Tests that any number of buckets may be in flight, however far apart the ranks are: from one to five hundred buckets,
// on ranks with random delays, and with one rank that begins when the others have sent all of their buckets.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

// Returns its input, and calls a function when backward passes through.
class OnBackward : public torch::autograd::Function<OnBackward> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const std::function<void()>* call) {
    context->saved_data["call"] = reinterpret_cast<std::int64_t>(call);
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    (*reinterpret_cast<const std::function<void()>*>(context->saved_data["call"].toInt()))();
    return {grads[0], torch::Tensor()};
  }
};

// A chain of parameters; `passes[i]` is called when backward is about to reach the i-th from the end.
struct LinkChainImpl : torch::nn::Module {
  LinkChainImpl(int length, std::int64_t width) {
    for (int i = 0; i < length; ++i) {
      links.push_back(register_parameter("link" + std::to_string(i),
                                         torch::linspace(0.99, 1.01, width, torch::kDouble).add(1e-4 * i)));
    }
  }
  torch::Tensor forward(torch::Tensor x, const std::vector<std::function<void()>>& passes) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      x = x * links[i] + 0.001;
      if (!passes.empty()) x = OnBackward::apply(x, &passes[links.size() - 1 - i]);
    }
    return x;
  }
  std::vector<torch::Tensor> links;
};
TORCH_MODULE(LinkChain);

struct BucketCountCase {
  const char* engine;
  int world_size;
  int buckets;
  std::int64_t width = 3;   // of a bucket: 3 elements need a box, 600 a slot
  bool has_thread = false;  // the engine runs operations on its own thread
};

torch::Tensor chain_batch(int rank, int step, std::int64_t width) {
  return torch::linspace(-1 - rank, 2 + step, 2 * width, torch::kDouble).view({2, width});
}

// One process: the average of the results of each rank's batch.
std::vector<torch::Tensor> one_process_averages(const BucketCountCase& param, int step) {
  LinkChain chain(param.buckets, param.width);
  for (int rank = 0; rank < param.world_size; ++rank) {
    (chain->forward(chain_batch(rank, step, param.width), {}).square().sum() / param.world_size).backward();
  }
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : chain->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

void run_case(const BucketCountCase& param, int steps,
              const std::function<std::vector<std::function<void()>>(const Membership&, int step)>& passes_of) {
  fuse_ranks(param.engine, param.world_size, [&](const Group& group) {
    LinkChain chain(param.buckets, param.width);
    auto options = fuse_on(group);
    options.bucket_cap_mb = 1e-6;  // a bucket for each parameter
    DistributedDataParallel ddp(chain, options);
    ASSERT_EQ(ddp.bucket_names().size(), static_cast<std::size_t>(param.buckets));
    for (int step = 0; step < steps; ++step) {
      chain->zero_grad();
      const auto passes = passes_of(group->membership(), step);
      const auto want = one_process_averages(param, step);
      ddp(chain_batch(group->rank(), step, param.width), passes).square().sum().backward();
      for (std::size_t i = 0; i < chain->links.size(); ++i) {
        ASSERT_TRUE(chain->links[i].grad().allclose(want[i], 1e-9, 1e-12))
            << chain->links.size() << " buckets, link " << i << ", step " << step;
      }
    }
  });
}

// Otherwise the engine decides by the number of spare cores whether it has a thread.
class BucketCount : public ::testing::TestWithParam<BucketCountCase> {
 protected:
  void SetUp() override { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", GetParam().has_thread ? "1" : "0", 1); }
  void TearDown() override { ::unsetenv("LOCKSTEP_COMMUNICATION_THREAD"); }
};

// Each rank pauses now and then for a random time.
TEST_P(BucketCount, WithRanksThatAreLateByChance) {
  run_case(GetParam(), 3, [](const Membership& membership, int step) {
    const auto random = std::make_shared<std::mt19937>(100 * membership.rank + step);
    const auto buckets = static_cast<std::size_t>(GetParam().buckets);
    return std::vector<std::function<void()>>(buckets, [random, buckets] {
      const auto draw = [&](std::uint32_t below) { return (*random)() % below; };
      if (draw(static_cast<std::uint32_t>(buckets)) >= 8) return;  // on average eight times per backward
      volatile double sum = 0;
      for (std::uint32_t i = draw(300'000); i > 0; --i) sum = sum + 1.0 / i;
    });
  });
}

// In each step another rank does not begin before all others have sent everything except their last bucket.
TEST_P(BucketCount, WithARankThatIsLaterThanEverything) {
  run_case(GetParam(), 2, [](const Membership& membership, int step) {
    std::vector<std::function<void()>> passes(static_cast<std::size_t>(GetParam().buckets), [] {});
    const auto key = [step](int rank) { return fmt::format("sent {} of step {}", rank, step); };
    const int late = (step + 1) % membership.world_size;
    if (membership.rank != late) {
      passes.back() = [&membership, key] { membership.store->set(key(membership.rank), "all"); };
    } else {
      passes.front() = [&membership, key] {
        std::vector<std::string> keys;
        for (int rank = 0; rank < membership.world_size; ++rank) {
          if (rank != membership.rank) keys.push_back(key(rank));
        }
        membership.store->wait(keys, Deadline::after(std::chrono::seconds(20)));
      };
    }
    return passes;
  });
}

void add_counts(const char* engine, std::vector<BucketCountCase>& all) {
  for (const int buckets : {1, 2, 3, 31, 32, 33, 34, 40, 65, 130, 500}) all.push_back({engine, 2, buckets});
  for (const int buckets : {33, 100}) all.push_back({engine, 3, buckets});
}

// These engines have slots, and a thread for operations.
std::vector<BucketCountCase> counts_with_slots() {
  std::vector<BucketCountCase> all;
  for (const char* engine : {"thread", "shm"}) {
    add_counts(engine, all);
    for (const int world_size : {2, 3}) {
      for (const int buckets : {2, 33, 80}) all.push_back({engine, world_size, buckets, 600});
    }
    for (const std::int64_t width : {3, 600}) all.push_back({engine, 2, 80, width, true});
  }
  return all;
}

std::vector<BucketCountCase> counts_without_slots() {
  std::vector<BucketCountCase> all;
  add_counts("gloo", all);
  return all;
}

std::string name_of_count(const ::testing::TestParamInfo<BucketCountCase>& test) {
  const BucketCountCase& param = test.param;
  return fmt::format("{}_{}_ranks_{}_buckets_of_{}{}", param.engine, param.world_size, param.buckets, param.width,
                     param.has_thread ? "_by_a_thread" : "");
}

INSTANTIATE_TEST_SUITE_P(All, BucketCount, ::testing::ValuesIn(counts_with_slots()), name_of_count);
INSTANTIATE_TEST_SUITE_P(AllLong, BucketCount, ::testing::ValuesIn(counts_without_slots()), name_of_count);

}  // namespace
}  // namespace lockstep
