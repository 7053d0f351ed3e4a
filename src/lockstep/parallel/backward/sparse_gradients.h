#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"

namespace lockstep {

/// The parameters whose gradients are sparse (tables of embeddings built with `sparse`). They have no place in a
/// bucket. At the end of a backward the ranks exchange their rows, and every rank's gradient becomes the average: a
/// sparse one over all rows that any rank had. If a rank has a dense gradient (a table that is also a layer's weight),
/// the gradient becomes dense on every rank.
class SparseGradients : public BackwardPart {
 public:
  SparseGradients(BackwardContext& context, std::vector<NamedTensor> parameters)
      : context_(context), parameters_(std::move(parameters)) {}
  void moved(std::size_t dense, std::size_t sparse) override;
  void drops() override;
  void joins() override { drops(); }
  /// @throws Error  on every rank, if a parameter got other memory and the ranks' values differ
  void meets(bool has_inputs) override;

 private:
  std::int64_t average_dense(at::Tensor& gradient, const at::Tensor& like, int divisor);
  std::int64_t average_rows(at::Tensor& gradient, const at::Tensor& like, const std::vector<std::int64_t>& rows,
                            int divisor);

  BackwardContext& context_;
  std::vector<NamedTensor> parameters_;
  bool moved_ = false;  // a parameter got other memory, and the ranks have not compared since
};

}  // namespace lockstep
