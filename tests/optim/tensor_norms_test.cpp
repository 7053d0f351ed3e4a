#include "lockstep/optim/update/tensor_norms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// One of each kind that GradientMemory leaves to LibTorch.
std::vector<at::Tensor> tensors_of_all_kinds() {
  at::manual_seed(4);
  return {at::randn({3, 4}), at::randn({5}, at::kDouble),     at::randn({6, 2}).t(), at::randn({2}, at::kComplexFloat),
          at::zeros({0}),    at::full({3}, -7, at::kBFloat16)};
}

TEST(TensorNorms, EqualThoseOfEachTensor) {
  const std::vector<at::Tensor> tensors = tensors_of_all_kinds();
  for (const double p : {1.0, 2.0, 3.0, kInf}) {
    const std::vector<double> norms = norms_of(tensors, p);
    ASSERT_EQ(norms.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor values = (tensors[i].is_complex() ? tensors[i].abs() : tensors[i]).to(at::kDouble).abs();
      const double want = values.numel() == 0 ? 0
                          : p == kInf         ? values.max().item<double>()
                                              : std::pow(values.pow(p).sum().item<double>(), 1 / p);
      EXPECT_NEAR(norms[i], want, want * (tensors[i].scalar_type() == at::kBFloat16 ? 1e-2 : 1e-5)) << i << ", p " << p;
    }
  }
}

TEST(TensorNorms, AnyElementThatIsNotFiniteCounts) {
  EXPECT_TRUE(are_finite({}));
  EXPECT_TRUE(are_finite(tensors_of_all_kinds()));
  for (std::size_t i = 0; i < tensors_of_all_kinds().size(); ++i) {
    for (const double bad : {kInf, -kInf, std::nan("")}) {
      std::vector<at::Tensor> tensors = tensors_of_all_kinds();
      if (tensors[i].numel() == 0) continue;
      at::Tensor flat = tensors[i].flatten();
      flat[1] = bad;
      tensors[i] = flat;
      EXPECT_FALSE(are_finite(tensors)) << i << ", " << bad;
    }
  }
}

TEST(TensorNorms, ScaleEachInPlace) {
  const std::vector<at::Tensor> tensors = tensors_of_all_kinds();
  const std::vector<at::Tensor> before = tensors_of_all_kinds();
  scale_tensors(tensors, 0.5);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_TRUE(tensors[i].equal(before[i] * 0.5)) << i;
  }
}

}  // namespace
}  // namespace lockstep
