// Tests that an Accelerator's loop with virtual shards has the same bits on any number of ranks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

constexpr std::int64_t kAcceleratedShards = 4;

AcceleratorOptions accelerated_shards(const Membership& membership, const std::string& precision = "no") {
  AcceleratorOptions options;
  options.mixed_precision = precision;
  options.ddp.process_group = make_communicator("thread", membership);
  options.ddp.virtual_shards = kAcceleratedShards;
  return options;
}

struct AcceleratedNetImpl : torch::nn::Module {
  AcceleratedNetImpl() {
    auto generator = at::detail::createCPUGenerator(5);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.2);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(dropout(torch::tanh(first(x)))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 40));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(40, 1));
};
TORCH_MODULE(AcceleratedNet);

at::Tensor accelerated_samples(std::uint64_t update, std::int64_t shard) {
  auto generator = at::detail::createCPUGenerator(100 * update + static_cast<std::uint64_t>(shard));
  return torch::randn({3, 6}, generator);
}

// The weights and the norms of the gradients after some updates.
at::Tensor train_accelerated(Accelerator& accelerator, bool fused) {
  AcceleratedNet net;
  Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  if (fused) {
    EXPECT_NE(model.ddp().fuse(adam).mode(), FuseMode::Off) << model.ddp().fused_step().reason();
  }
  std::vector<at::Tensor> results;
  for (std::uint64_t update = 0; update < 4; ++update) {
    accelerator.run_shards(model, update, [&, &prepared = model](std::int64_t shard) {
      accelerator.backward(prepared(accelerated_samples(update, shard)).pow(2).mean());
    });
    results.push_back(torch::full({1}, accelerator.clip_grad_norm_(net->parameters(), 0.05), torch::kDouble));
    optimizer.step();
  }
  for (const auto& parameter : net->parameters()) results.push_back(parameter.detach().flatten().to(torch::kDouble));
  return torch::cat(results);
}

TEST(AcceleratorShards, HaveTheSameBitsOnAnyNumberOfRanks) {
  for (const char* precision : {"no", "bf16"}) {
    at::Tensor want;
    for (const int ranks : {1, 2, 3, 4}) {
      for (const bool fused : {false, true}) {
        SCOPED_TRACE(std::string(precision) + ", " + std::to_string(ranks) + (fused ? " fused ranks" : " ranks"));
        run_ranks_as_threads(ranks, [&](const Membership& membership) {
          Accelerator accelerator(accelerated_shards(membership, precision));
          const at::Tensor got = train_accelerated(accelerator, fused);
          if (!want.defined() && ranks == 1) want = got;
          EXPECT_TRUE(torch::equal(got, want));
        });
      }
    }
  }
}

std::string accelerated_refusal(const AcceleratorOptions& options, const std::function<void(Accelerator&)>& body) {
  try {
    Accelerator accelerator(options);
    body(accelerator);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AcceleratorShards, RefuseWhatDependsOnTheNumberOfRanks) {
  run_ranks_as_threads(1, [](const Membership& membership) {
    AcceleratorOptions options = accelerated_shards(membership);
    const auto dataset = std::make_shared<TensorDataset>(Batch{{"x", torch::ones({4, 6})}});
    EXPECT_NE(accelerated_refusal(options, [&](auto& each) { each.prepare(DataLoader(dataset, {})); })
                  .find("virtual shards cannot be combined with a prepared loader"),
              std::string::npos);
    options.gradient_accumulation_steps = 2;
    EXPECT_NE(accelerated_refusal(options, [](auto& each) { train_accelerated(each, false); })
                  .find("run_shards cannot be combined with gradient_accumulation_steps 2"),
              std::string::npos);
    options.gradient_accumulation_steps = 1;
    options.ddp.virtual_shards = 0;
    EXPECT_NE(accelerated_refusal(options, [](auto& each) { train_accelerated(each, false); })
                  .find("run_shards needs virtual shards"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
