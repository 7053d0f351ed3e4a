#include "lockstep/optim/flatten.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct Net : torch::nn::Module {
  Net() {
    linear = register_module("linear", torch::nn::Linear(5, 3));
    convolution = register_module("convolution", torch::nn::Conv2d(2, 4, 3));
    convolution->weight.set_data(convolution->weight.contiguous(at::MemoryFormat::ChannelsLast));
    scale = register_parameter("scale", torch::randn({7}, torch::kDouble));
    empty = register_parameter("empty", torch::randn({0, 3}));
    frozen = register_parameter("frozen", torch::randn({2}), /*requires_grad=*/false);
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::Conv2d convolution{nullptr};
  at::Tensor scale, empty, frozen;
};

TEST(Flatten, KeepsModuleValuesNamesAndStrides) {
  Net net;
  std::map<std::string, at::Tensor> before;
  for (const auto& item : net.named_parameters()) before[item.key()] = item.value().detach().clone();
  const auto* impl = net.linear->weight.unsafeGetTensorImpl();
  const auto flats = flatten(net);
  EXPECT_EQ(net.linear->weight.unsafeGetTensorImpl(), impl);
  for (const auto& item : net.named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), before.at(item.key()))) << item.key();
    EXPECT_EQ(item.value().strides(), before.at(item.key()).strides()) << item.key();
    EXPECT_EQ(item.value().requires_grad(), item.key() != "frozen");
    EXPECT_TRUE(item.value().is_leaf());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(item.value().data_ptr()) % 64, 0U) << item.key();
  }
  ASSERT_EQ(flats.size(), 2U);
  std::size_t count = 0;
  for (const FlatParameters& flat : flats) {
    count += flat.parameters.size();
    for (std::size_t i = 0; i < flat.parameters.size(); ++i) {
      if (flat.parameters[i].numel() == 0) continue;  // has no address
      EXPECT_EQ(flat.parameters[i].data_ptr(),
                static_cast<char*>(flat.memory.data_ptr()) +
                    flat.offsets[i] * static_cast<std::int64_t>(flat.memory.element_size()));
    }
  }
  EXPECT_EQ(count, before.size());
}

TEST(Flatten, MemoryAndParametersAreOne) {
  Net net;
  for (const FlatParameters& flat : flatten(net)) {
    const torch::NoGradGuard no_grad;
    at::Tensor(flat.memory).fill_(2);
  }
  EXPECT_TRUE(torch::equal(net.linear->weight, torch::full({3, 5}, 2.0)));
  const at::Tensor input = torch::ones({1, 5});
  net.linear->forward(input).sum().backward();
  EXPECT_TRUE(torch::equal(net.linear->weight.grad(), torch::ones({3, 5})));
}

TEST(Flatten, TakesTheCallersMemoryInTheCallersOrder) {
  at::Tensor a = torch::ones({3}).set_requires_grad(true);
  at::Tensor b = torch::full({20}, 2.0).set_requires_grad(true);
  at::Tensor memory;
  const auto flats = flatten({b, a, b}, [&](std::int64_t numel, at::ScalarType dtype) {
    EXPECT_EQ(dtype, torch::kFloat);
    return memory = torch::full({numel}, 9.0, dtype);
  });
  ASSERT_EQ(flats.size(), 1U);
  EXPECT_EQ(flats[0].offsets, (std::vector<std::int64_t>{0, 32}));
  EXPECT_EQ(memory.numel(), 48);
  EXPECT_EQ(memory.sum().item<float>(), 43);  // the gaps are zero
  EXPECT_EQ(a.data_ptr(), memory.data_ptr<float>() + 32);
}

TEST(FlattenErrors, NameTheParameter) {
  const at::Tensor a = torch::ones({32}).set_requires_grad(true);
  const at::Tensor whole = torch::ones({64});
  const at::Tensor first = whole.narrow(0, 0, 40).detach().set_requires_grad(true);
  const at::Tensor second = whole.narrow(0, 30, 20).detach().set_requires_grad(true);
  EXPECT_THROW(flatten({first, second}), Error);
  EXPECT_THROW(flatten({a.mul(2)}), Error);
  EXPECT_THROW(flatten({a, at::Tensor()}), Error);
  const auto wrong_size = [](std::int64_t numel, at::ScalarType dtype) { return torch::empty({numel + 1}, dtype); };
  const auto wrong_type = [](std::int64_t numel, at::ScalarType) { return torch::empty({numel}, torch::kDouble); };
  const auto unaligned = [](std::int64_t numel, at::ScalarType dtype) {
    return torch::empty({numel + 1}, dtype).narrow(0, 1, numel);
  };
  EXPECT_THROW(flatten({a}, wrong_size), Error);
  EXPECT_THROW(flatten({a}, wrong_type), Error);
  EXPECT_THROW(flatten({a}, unaligned), Error);
  EXPECT_TRUE(torch::equal(a, torch::ones({32})));
}

}  // namespace
}  // namespace lockstep
