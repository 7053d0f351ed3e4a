#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lockstep {

// The layers of the transformers. Unlike LibTorch's layers they do not draw initial values: the code that builds a
// model decides whether to draw them or to read weights. Drawing 110 million values to throw them away takes a second.

/// x · weightᵀ + bias; parameters "weight" [out, in] and "bias" [out].
class Dense : public torch::nn::Module {
 public:
  Dense(std::int64_t in, std::int64_t out, bool has_bias = true);
  /// @param x  [rows, in]
  /// @return  [rows, out]
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// x · weight + bias, GPT-2's "Conv1D"; parameters "weight" [in, out] and "bias" [out].
class TransposedDense : public torch::nn::Module {
 public:
  TransposedDense(std::int64_t in, std::int64_t out);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Layer normalisation over the last dimension, in the type of its parameters "weight" and "bias".
class Norm : public torch::nn::Module {
 public:
  Norm(std::int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  double eps_;
};

/// Rows of a table; parameter "weight" [count, size].
class Embedding : public torch::nn::Module {
 public:
  /// @param padding_idx  the row that gets no gradient; -1: every row gets one
  Embedding(std::int64_t count, std::int64_t size, std::int64_t padding_idx = -1);
  /// @param ids  int64, any shape
  /// @return  [ids..., size]
  at::Tensor forward(const at::Tensor& ids) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
  std::int64_t padding_idx_;
};

/// A prefix of names without parameters of its own, such as "attention" in "attention.self.query.weight".
class Scope : public torch::nn::Module {
 public:
  template <typename Child>
  std::shared_ptr<Child> add(const std::string& name, std::shared_ptr<Child> child) {
    return register_module(name, std::move(child));
  }
};

/// The scope in which the last part of `path` lies, made below `root` if it does not exist: "attention.self" below
/// `root` for "attention.self.query". It is `root` itself for a path of one part.
/// @param name  becomes that last part
torch::nn::Module& scope_of(torch::nn::Module& root, const std::string& path, std::string& name);

/// Registers `child` below `root` under a path such as "attention.self.query".
template <typename Child>
std::shared_ptr<Child> add_at(torch::nn::Module& root, const std::string& path, std::shared_ptr<Child> child) {
  std::string name;
  torch::nn::Module& scope = scope_of(root, path, name);
  return scope.register_module(name, std::move(child));
}

}  // namespace lockstep
