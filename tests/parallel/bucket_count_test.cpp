// Any number of buckets may be under way, however far the ranks are apart: from one to five hundred, on ranks that are
// late by chance, and with one rank that has sent all of its buckets before another begins.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <random>

#include "tests/parallel/fuse_ranks.h"

namespace lockstep {
namespace {

// Hands its input on, and calls something when backward passes by.
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

constexpr std::int64_t kWidth = 3;

// One small parameter after the other; `passes[i]` is called when backward is about to reach the i-th from the end.
struct LinkChainImpl : torch::nn::Module {
  explicit LinkChainImpl(int length) {
    for (int i = 0; i < length; ++i) {
      links.push_back(register_parameter("link" + std::to_string(i),
                                         torch::linspace(0.99, 1.01, kWidth, torch::kDouble).add(1e-4 * i)));
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

torch::Tensor chain_batch(int rank, int step) {
  return torch::linspace(-1 - rank, 2 + step, 2 * kWidth, torch::kDouble).view({2, kWidth});
}

// One process: the average of what each rank's batch gives alone.
std::vector<torch::Tensor> one_process_averages(int length, int world_size, int step) {
  LinkChain chain(length);
  for (int rank = 0; rank < world_size; ++rank) {
    (chain->forward(chain_batch(rank, step), {}).square().sum() / world_size).backward();
  }
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : chain->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

struct BucketCountCase {
  const char* engine;
  int world_size;
  int buckets;
};

void run_case(const BucketCountCase& param, int steps,
              const std::function<std::vector<std::function<void()>>(const Membership&, int step)>& passes_of) {
  const auto body = [&](const Membership& membership) {
    const Group group = make_communicator(param.engine, membership);
    LinkChain chain(param.buckets);
    auto options = fuse_on(group);
    options.bucket_cap_mb = 1e-6;  // a bucket for each parameter
    DistributedDataParallel ddp(chain, options);
    ASSERT_EQ(ddp.bucket_names().size(), static_cast<std::size_t>(param.buckets));
    for (int step = 0; step < steps; ++step) {
      chain->zero_grad();
      const auto passes = passes_of(membership, step);
      const auto want = one_process_averages(param.buckets, param.world_size, step);
      ddp(chain_batch(membership.rank, step), passes).square().sum().backward();
      for (std::size_t i = 0; i < chain->links.size(); ++i) {
        ASSERT_TRUE(chain->links[i].grad().allclose(want[i], 1e-9, 1e-12))
            << chain->links.size() << " buckets, link " << i << ", step " << step;
      }
    }
  };
  if (std::string(param.engine) == "shm") {
    run_ranks_as_processes(param.world_size, body);
  } else {
    run_ranks_as_threads(param.world_size, body);
  }
}

class BucketCount : public ::testing::TestWithParam<BucketCountCase> {};

// Each rank stands still now and then, for as long as chance has it.
TEST_P(BucketCount, WithRanksThatAreLateByChance) {
  run_case(GetParam(), 3, [](const Membership& membership, int step) {
    const auto random = std::make_shared<std::mt19937>(100 * membership.rank + step);
    const auto buckets = static_cast<std::size_t>(GetParam().buckets);
    return std::vector<std::function<void()>>(buckets, [random, buckets] {
      const auto draw = [&](std::uint32_t below) { return (*random)() % below; };
      if (draw(static_cast<std::uint32_t>(buckets)) >= 8) return;  // some eight times in a backward
      volatile double sum = 0;
      for (std::uint32_t i = draw(300'000); i > 0; --i) sum = sum + 1.0 / i;
    });
  });
}

// The last rank does not begin before all others have sent everything but their last bucket.
TEST_P(BucketCount, WithARankThatIsLaterThanEverything) {
  run_case(GetParam(), 2, [](const Membership& membership, int step) {
    std::vector<std::function<void()>> passes(static_cast<std::size_t>(GetParam().buckets), [] {});
    const auto key = [step](int rank) { return fmt::format("sent {} of step {}", rank, step); };
    if (membership.rank + 1 < membership.world_size) {
      passes.back() = [&membership, key] { membership.store->set(key(membership.rank), "all"); };
    } else {
      passes.front() = [&membership, key] {
        std::vector<std::string> keys;
        for (int rank = 0; rank + 1 < membership.world_size; ++rank) keys.push_back(key(rank));
        membership.store->wait(keys, Deadline::after(std::chrono::seconds(20)));
      };
    }
    return passes;
  });
}

std::vector<BucketCountCase> bucket_counts() {
  std::vector<BucketCountCase> all;
  for (const char* engine : {"thread", "shm", "gloo"}) {
    for (const int buckets : {1, 2, 3, 31, 32, 33, 34, 40, 65, 130, 500}) all.push_back({engine, 2, buckets});
    for (const int buckets : {33, 100}) all.push_back({engine, 3, buckets});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BucketCount, ::testing::ValuesIn(bucket_counts()), [](const auto& test) {
  return fmt::format("{}_{}_ranks_{}_buckets", test.param.engine, test.param.world_size, test.param.buckets);
});

}  // namespace
}  // namespace lockstep
