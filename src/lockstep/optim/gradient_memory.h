#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// The kernels' name of a dtype that they know. @return  false for any other
bool element_type_of(at::ScalarType dtype, ElementType& type);
/// True if equal indices of `a` and `b` stand at equal distances from the start of their memory.
bool same_memory_order(const at::Tensor& a, const at::Tensor& b);
/// True if the kernels can walk `tensor` as one piece of memory: on the CPU, strided, without holes, of a dtype that
/// they know.
bool is_plain_memory(const at::Tensor& tensor);

/// The memory of a parameter's gradient, which is defined: what is written to it is in the gradient. Of a sparse one
/// the values, and rows that come twice are added up first, in place of the gradient.
at::Tensor gradient_elements(const at::Tensor& parameter);

/// The gradients of a list of parameters, in its order: those that kernels can walk, and the others.
class GradientMemory {
 public:
  /// Parameters without a gradient are passed over; a parameter that is listed twice counts twice, as in LibTorch.
  explicit GradientMemory(const std::vector<at::Tensor>& parameters);

  std::size_t count() const { return plain_.size() + others_.size(); }
  /// Norm of all elements together: `p` is 2, infinity, 0 (the number of gradients, as in LibTorch) or any other
  /// number. Added in double, in an order that depends on the list alone: neither on threads nor on memory layout.
  double norm(double p) const;
  /// Multiplies all by `factor`. @return  true if all results are finite
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

  std::vector<Piece> plain_;
  std::vector<at::Tensor> others_;
};

}  // namespace lockstep
