// Tests the wrapped module's members, which the wrappers offer too.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/data_parallel.h"

namespace lockstep {
namespace {

struct NormedLineImpl : torch::nn::Cloneable<NormedLineImpl> {
  NormedLineImpl() { reset(); }
  void reset() override {
    line = register_module("line", torch::nn::Linear(2, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(line(x)); }
  at::Tensor doubled(const at::Tensor& x) { return 2 * forward(x); }
  torch::nn::Linear line{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(NormedLine);

template <typename Wrapper, typename Module>
void expect_members_of_module(Wrapper& wrapper, Module& module) {
  wrapper.eval();
  EXPECT_FALSE(module.is_training());
  EXPECT_FALSE(wrapper.is_training());
  wrapper.train();
  EXPECT_TRUE(module.is_training());
  wrapper->train(false);
  EXPECT_FALSE(wrapper.is_training());
  wrapper.train(true);
  const auto parameters = wrapper.parameters();
  const auto buffers = wrapper.buffers();
  std::size_t next = 0;
  for (const at::Tensor& parameter : module.parameters()) EXPECT_TRUE(parameters.at(next++).is_same(parameter));
  EXPECT_EQ(next, parameters.size());
  next = 0;
  for (const at::Tensor& buffer : module.buffers()) EXPECT_TRUE(buffers.at(next++).is_same(buffer));
  EXPECT_EQ(next, buffers.size());
  EXPECT_GT(next, 0U);
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = torch::ones_like(parameter);
  wrapper.zero_grad(false);
  for (const at::Tensor& parameter : parameters) EXPECT_EQ(parameter.grad().abs().sum().item<double>(), 0);
  wrapper.zero_grad(true);
  for (const at::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
  wrapper.zero_grad();
}

DistributedDataParallelOptions alone_in_group() {
  DistributedDataParallelOptions options;
  options.process_group = make_communicator("thread", {});
  return options;
}

TEST(ModuleMembers, OfAWrapperAreTheModules) {
  NormedLine holder;
  DistributedDataParallel of_holder(holder, alone_in_group());
  expect_members_of_module(of_holder, *holder);
  EXPECT_EQ(of_holder->doubled(torch::ones({3, 2})).size(0), 3);
  EXPECT_EQ(of_holder.named_parameters().size(), 4U);
  const auto shared = std::make_shared<NormedLineImpl>();
  DistributedDataParallel of_pointer(shared, alone_in_group());
  expect_members_of_module(of_pointer, *shared);
  DataParallel of_replicas(holder, {"cpu:0", "cpu:1"});
  expect_members_of_module(of_replicas, *holder);
}

TEST(ModuleMembers, OfTorchScriptToo) {
  torch::jit::Module script("script");
  script.register_parameter("weight", torch::ones({2, 2}).requires_grad_(), false);
  script.register_buffer("steps", torch::zeros({1}));
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define("def forward(self, x):\n    return x.mm(self.weight)\n");
  DistributedDataParallel ddp(script, alone_in_group());
  expect_members_of_module(ddp, script);
}

}  // namespace
}  // namespace lockstep
