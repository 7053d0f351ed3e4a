#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/reducer/accumulator_hook.h"
#include "lockstep/tensor/module_tensors.h"

namespace lockstep {

/// The parameters whose gradients are sparse (tables of embeddings built with `sparse`): they have no place in a
/// bucket. At the end of a backward the ranks exchange the rows that each has, and every rank's gradient becomes the
/// average, a sparse one over all rows that any rank had. Where a rank has a dense one (a table that is also a layer's
/// weight), it becomes dense everywhere.
class SparseGradients {
 public:
  SparseGradients(std::vector<NamedTensor> parameters, std::shared_ptr<Communicator> communicator);

  /// `call` after each gradient that backward has added.
  void watch(const std::function<void()>& call);
  /// See AccumulatorHook::follow. Parameters that were given other memory, as by torch::load, are compared over the
  /// ranks in the next `average`. @return  their number
  std::size_t follow();

  struct Averaging {
    bool has_inputs = true;               ///< false: this rank has run out of them, and has no gradients
    bool joining = false;                 ///< some ranks may have, and the weights of an older step
    bool divide_by_active_ranks = false;  ///< by those with inputs, instead of all
  };
  /// Collective. @return  bytes that were sent
  /// @throws Error  on every rank, if one was given other memory and the ranks' parameters differ
  std::int64_t average(Averaging averaging);

  std::size_t size() const { return parameters_.size(); }
  /// Takes all gradients off their parameters.
  void drop();

 private:
  std::int64_t average_dense(at::Tensor& gradient, const at::Tensor& like, int divisor);
  std::int64_t average_rows(at::Tensor& gradient, const at::Tensor& like, const std::vector<std::int64_t>& rows,
                            int divisor);

  std::vector<NamedTensor> parameters_;
  std::vector<std::unique_ptr<AccumulatorHook>> hooks_;
  std::shared_ptr<Communicator> communicator_;
  bool moved_ = false;  // a parameter got other memory, and the ranks have not compared theirs since
};

}  // namespace lockstep
