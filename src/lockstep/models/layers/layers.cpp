#include "lockstep/models/layers/layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>

#include "lockstep/models/layers/dense_function.h"

namespace lockstep {

Dense::Dense(std::int64_t in, std::int64_t out, bool has_bias)
    : weight_(register_parameter("weight", at::empty({out, in}))) {
  if (has_bias) bias_ = register_parameter("bias", at::empty({out}));
}

at::Tensor Dense::forward(const at::Tensor& x) const { return dense(x, weight_, bias_, WeightLayout::OutIn); }

TransposedDense::TransposedDense(std::int64_t in, std::int64_t out)
    : weight_(register_parameter("weight", at::empty({in, out}))),
      bias_(register_parameter("bias", at::empty({out}))) {}

at::Tensor TransposedDense::forward(const at::Tensor& x) const { return dense(x, weight_, bias_, WeightLayout::InOut); }

Norm::Norm(std::int64_t size, double eps)
    : weight_(register_parameter("weight", at::empty({size}))),
      bias_(register_parameter("bias", at::empty({size}))),
      eps_(eps) {}

at::Tensor Norm::forward(const at::Tensor& x) const {
  // Autocast brings x in bf16, for which LibTorch 1.13 has no backward with fp32 weights.
  return at::layer_norm(x.to(weight_.scalar_type()), weight_.sizes(), weight_, bias_, eps_);
}

Embedding::Embedding(std::int64_t count, std::int64_t size, std::int64_t padding_idx)
    : weight_(register_parameter("weight", at::empty({count, size}))), padding_idx_(padding_idx) {}

at::Tensor Embedding::forward(const at::Tensor& ids) const { return embed(weight_, ids, padding_idx_); }

torch::nn::Module& scope_of(torch::nn::Module& root, const std::string& path, std::string& name) {
  torch::nn::Module* scope = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string part = path.substr(begin, dot - begin);
    auto children = scope->named_children();
    const std::shared_ptr<torch::nn::Module>* known = children.find(part);
    scope = known != nullptr ? known->get() : scope->register_module(part, std::make_shared<Scope>()).get();
    begin = dot + 1;
  }
  name = path.substr(begin);
  return *scope;
}

}  // namespace lockstep
