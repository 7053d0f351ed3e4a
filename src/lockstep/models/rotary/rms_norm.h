#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

namespace lockstep {

/// x / sqrt(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich, 2019, arXiv:1910.07467). Computes in
/// fp32 at least; the quotient is rounded to the type of x before the product, as in Hugging Face's class.
class RmsNorm : public torch::nn::Module {
 public:
  RmsNorm(std::int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  double eps_;
};

}  // namespace lockstep
