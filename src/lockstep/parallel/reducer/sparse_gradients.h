#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// The parameters whose gradients are sparse (tables of embeddings built with `sparse`). They have no place in a
/// bucket. At the end of a backward the ranks exchange their rows, and every rank's gradient becomes the average: a
/// sparse one over all rows that any rank had. If a rank has a dense gradient (a table that is also a layer's weight),
/// the gradient becomes dense on every rank.
class SparseGradients {
 public:
  SparseGradients(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator);

  /// A parameter got other memory, as by torch::load: the next `average` compares the parameters over the ranks.
  void set_moved() { moved_ = true; }

  struct Averaging {
    bool has_inputs = true;               ///< false: this rank has run out of them, and has no gradients
    bool joining = false;                 ///< some ranks may have run out, and then hold older weights
    bool divide_by_active_ranks = false;  ///< by the number of ranks with inputs
  };
  /// Collective. @return  bytes that were sent
  /// @throws Error  on every rank, if a parameter got other memory and the ranks' values differ
  std::int64_t average(Averaging averaging);

  /// Removes all gradients from their parameters.
  void drop();

 private:
  std::int64_t average_dense(at::Tensor& gradient, const at::Tensor& like, int divisor);
  std::int64_t average_rows(at::Tensor& gradient, const at::Tensor& like, const std::vector<std::int64_t>& rows,
                            int divisor);

  std::vector<NamedTensor> parameters_;
  std::shared_ptr<Communicator> communicator_;
  bool moved_ = false;  // a parameter got other memory, and the ranks have not compared since
};

}  // namespace lockstep
