#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/visit_tensors.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

/// Warns, once, of losses whose mean is not the batch's loss: each replica returned a scalar of the graph, and the
/// chunks have different numbers of samples. A LossSum contains its count and needs no warning.
class LossHint {
 public:
  /// @param was_given  shared by all hints that may warn only once together
  explicit LossHint(std::shared_ptr<std::atomic<bool>> was_given = std::make_shared<std::atomic<bool>>(false))
      : was_given_(std::move(was_given)) {}

  /// @param chunks   arguments of each replica
  /// @param outputs  output of each replica
  /// @param dim      dimension of the batch
  template <typename Chunk, typename Output>
  void look(const std::vector<Chunk>& chunks, const std::vector<Output>& outputs, std::int64_t dim) {
    if (*was_given_ || chunks.size() < 2) return;
    LossFinder losses;
    visit_tensors(outputs.front(), losses);
    if (!losses.found) return;
    std::vector<std::int64_t> samples;
    for (const Chunk& chunk : chunks) samples.push_back(samples_of(chunk, dim));
    give(samples);
  }

  /// Size along `dim` of the first tensor in `value` that has this dimension; -1 if no tensor has it.
  template <typename T>
  static std::int64_t samples_of(const T& value, std::int64_t dim) {
    std::int64_t samples = -1;
    visit_tensors(value, [&](const at::Tensor& tensor) {
      if (samples < 0 && tensor.defined() && dim < tensor.dim() && -dim <= tensor.dim()) samples = tensor.size(dim);
    });
    return samples;
  }

 private:
  struct LossFinder {
    template <typename T>
    static constexpr bool kPassesBy = std::is_same_v<T, LossSum>;
    void operator()(const at::Tensor& tensor) {
      found = found || (tensor.defined() && tensor.dim() == 0 && tensor.requires_grad());
    }
    bool found = false;
  };

  void give(const std::vector<std::int64_t>& samples);

  std::shared_ptr<std::atomic<bool>> was_given_;
};

}  // namespace lockstep
