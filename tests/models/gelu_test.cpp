// Tests the gradient of GELU in bf16 against LibTorch in fp64.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "lockstep/detail/models/activation.h"
#include "lockstep/models/layers/gelu_kernel.h"

namespace lockstep {
namespace {

at::Tensor kernel_gradients(const at::Tensor& x, const at::Tensor& dy) {
  at::Tensor dx = torch::empty_like(x);
  gelu_gradients(x.data_ptr<at::BFloat16>(), dy.data_ptr<at::BFloat16>(), dx.data_ptr<at::BFloat16>(), x.numel());
  return dx;
}

// Every bf16 number that GELU does not map to itself or to zero, and rounding to bf16 is all that is lost.
TEST(GeluGradient, IsThatOfFp64RoundedToBf16) {
  const at::Tensor bits = torch::arange(0, 1 << 16, torch::kInt).to(torch::kShort);
  const at::Tensor all = torch::from_blob(bits.data_ptr(), {1 << 16}, torch::kBFloat16);
  const at::Tensor x = all.masked_select(all.abs().to(torch::kFloat) < 30);
  ASSERT_GT(x.numel(), 30'000);
  const at::Tensor got = kernel_gradients(x, torch::ones_like(x)).to(torch::kDouble);
  at::Tensor wide = x.to(torch::kDouble).requires_grad_();
  torch::gelu(wide).sum().backward();
  const at::Tensor want = wide.grad();
  // Half of a bf16's last place, and the error of the sum in fp32.
  const at::Tensor bound = want.abs() / 256 + 4e-7;
  EXPECT_TRUE(((got - want).abs() <= bound).all().item<bool>()) << ((got - want).abs() - bound).max().item<double>();
}

// Sums of parts and whole have the same bits: also of sizes that do not fill a block.
TEST(GeluGradient, DoesNotDependOnThePlaceInMemory) {
  const at::Tensor x = torch::linspace(-5, 5, 1000).to(torch::kBFloat16),
                   dy = torch::linspace(1, 2, 1000).to(x.options());
  const at::Tensor whole = kernel_gradients(x, dy);
  for (const std::int64_t count : {1, 63, 64, 65, 999}) {
    const at::Tensor part = kernel_gradients(x.narrow(0, 1000 - count, count), dy.narrow(0, 1000 - count, count));
    EXPECT_TRUE(torch::equal(part, whole.narrow(0, 1000 - count, count))) << count;
  }
  EXPECT_EQ(kernel_gradients(x.narrow(0, 0, 0), dy.narrow(0, 0, 0)).numel(), 0);
}

// Loss scaling and the check for infinities rely on them.
TEST(GeluGradient, KeepsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = torch::tensor({kNan, kInfinity, -kInfinity, 1.0F, 1.0F}).to(torch::kBFloat16);
  const at::Tensor dy = torch::tensor({1.0F, 1.0F, 1.0F, kNan, kInfinity}).to(torch::kBFloat16);
  const at::Tensor got = kernel_gradients(x, dy).to(torch::kFloat);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(got[i].item<float>())) << i << ", as LibTorch: " << got;
  EXPECT_EQ(got[4].item<float>(), kInfinity);
}

// The layer: its first gradient by the kernel, and gradients of gradients.
TEST(GeluGradient, BelongsToTheActivationAndHasAGraph) {
  const at::Tensor values = torch::linspace(-3, 3, 40).to(torch::kBFloat16).view({4, 10}).t();  // not contiguous
  const at::Tensor x = values.detach().requires_grad_();
  const at::Tensor out = activate(Activation::Gelu, x);
  const at::Tensor first = torch::autograd::grad({out.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(
      torch::equal(first.contiguous(), kernel_gradients(values.contiguous(), torch::ones({10, 4}, x.options()))));
  const at::Tensor again = torch::autograd::grad({out.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  const at::Tensor second = torch::autograd::grad({again.sum()}, {x})[0].to(torch::kFloat);
  // The derivative of Φ(x) + x φ(x) is (2 - x²) φ(x).
  const at::Tensor wide = values.to(torch::kFloat);
  const at::Tensor want = (2 - wide.pow(2)) * torch::exp(-wide.pow(2) / 2) / std::sqrt(2 * M_PI);
  EXPECT_LT((second - want).abs().max().item<float>(), 0.01);
}

}  // namespace
}  // namespace lockstep
