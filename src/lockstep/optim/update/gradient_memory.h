#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// Sets `type` to the kernels' name of a dtype. @return  false if the kernels do not support the dtype
bool element_type_of(at::ScalarType dtype, ElementType& type);
/// True if elements with equal indices in `a` and `b` are at equal distances from the start of their memory.
bool same_memory_order(const at::Tensor& a, const at::Tensor& b);
/// True if the kernels can walk `tensor` as one piece of memory: it is on the CPU, strided, without holes, and of a
/// dtype that they support.
bool is_plain_memory(const at::Tensor& tensor);

/// The memory of a parameter's gradient, which must be defined: writing to the result changes the gradient. For a
/// sparse gradient these are the values; repeated rows are first added up in the gradient itself.
at::Tensor gradient_elements(const at::Tensor& parameter);

/// The gradients of a list of parameters, in its order: those that kernels can walk, and all others.
class GradientMemory {
 public:
  /// Skips parameters without a gradient. A parameter that is listed twice counts twice, as in LibTorch.
  explicit GradientMemory(const std::vector<at::Tensor>& parameters);

  std::size_t count() const { return plain_.size() + others_.size(); }
  /// Norm of all elements together: `p` is 2, infinity, -infinity (the smallest magnitude), 0 (the number of gradients,
  /// as in LibTorch) or any other number. It is added up in double, in an order that depends only on the list, not on
  /// threads or memory layout.
  double norm(double p) const;
  /// Multiplies all by `factor`.
  void multiply(double factor) const;
  /// The same. @return  true if all results are finite
  bool scale(double factor) const;
  bool all_finite() const;

 private:
  struct Piece {
    void* data;
    std::size_t numel;
    ElementType type;
  };
  GradientSource source(const Piece& piece, double factor = 1) const;
  template <typename Kernel>
  bool all_pieces(double factor, const Kernel& kernel) const;
  double plain_sum_of_squares() const;
  double extreme_norm(double p) const;
  std::vector<double> norms_of_others(double p) const;

  std::vector<Piece> plain_;
  std::vector<at::Tensor> others_;
};

}  // namespace lockstep
