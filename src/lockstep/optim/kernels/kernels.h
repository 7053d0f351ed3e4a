#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/optim/kernels/undo_log.h"

namespace lockstep {

/// Type of an element in memory.
enum class ElementType : std::uint8_t { Float, Double, BFloat16, Half };

std::size_t element_size_bytes(ElementType type);

/// The gradient that a pass reads. Element i is
///
///     (sources[0][i] + sources[1][i] + ... + sources[num_sources - 1][i]) / divisor * factor
///
/// added in this order, in fp32 for sources of 16 bits. One source with divisor 1 and factor 1 is a plain gradient. One
/// source per rank makes the pass a reduction, too: the gradients are read once and never written back.
struct GradientSource {
  void* const* sources = nullptr;  ///< pointers to element 0, each laid out as the weights
  std::size_t num_sources = 1;
  ElementType type = ElementType::Float;  ///< the weights' type; for fp32 weights also BFloat16 or Half
  double divisor = 1;                     ///< number of ranks, for an average
  double factor = 1;                      ///< clips, or divides by a loss scale
  /// Round to `type` after the division and after the factor, as memory of that type would. A pass over 16 bits then
  /// equals, bit for bit, reduction, clipping and update done one by one.
  bool round = false;
  /// Write zeros to all sources in the same pass, in the elements that it updates.
  bool zero = false;
};

/// The bf16 copy of fp32 weights, which a pass writes beside them: each new weight, rounded to nearest even.
struct WeightCopy {
  std::uint16_t* out = nullptr;  ///< null: there is no copy
  /// Set to true if an element of the copy was not the old weight, rounded. May be null if nobody wants to know.
  std::atomic<bool>* was_stale = nullptr;
};

/// As torch::optim::SGDOptions.
struct SgdHyperparameters {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// Memory and constants of an SGD update. T is float or double; all pointers are to element 0.
template <typename T>
struct SgdPass {
  const T* param = nullptr;
  T* param_out = nullptr;        ///< gets the new weights; may be `param`
  T* momentum_buffer = nullptr;  ///< ignored if momentum is 0
  bool first = false;            ///< the buffer is not set yet and becomes the gradient, without dampening
  UndoLog undo;                  ///< empty, unless its word is set; then param_out is param
  WeightCopy copy;               ///< only for T float
  GradientSource gradient;
  SgdHyperparameters hyper;
};

/// As torch::optim::AdamOptions and AdamWOptions.
struct AdamHyperparameters {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
};

/// Memory and constants of an Adam or AdamW update.
template <typename T>
struct AdamPass {
  const T* param = nullptr;
  T* param_out = nullptr;
  T* exp_avg = nullptr;
  T* exp_avg_sq = nullptr;
  T* max_exp_avg_sq = nullptr;  ///< not null: amsgrad
  std::int64_t step = 1;        ///< number of this update, from 1
  UndoLog undo;                 ///< empty, unless its word is set; then param_out is param
  WeightCopy copy;              ///< only for T float
  GradientSource gradient;
  AdamHyperparameters hyper;
};

/// One update of elements [begin, end), in one pass over memory. The arithmetic is that of LibTorch's optimizers, in
/// the same order. An element's result depends only on that element, so a pass may be cut anywhere, among threads or
/// ranks. Avx2 and Avx512 give the same bits; Baseline may differ in the last one, because it has no fused
/// multiply-add. Pointers need no alignment. Different memory must not overlap, except param and param_out.
/// Thread-safe.
template <typename T>
void sgd_step(const SgdPass<T>& pass, std::size_t begin, std::size_t end,
              InstructionSet level = widest_instruction_set());
template <typename T>
void adam_step(const AdamPass<T>& pass, std::size_t begin, std::size_t end,
               InstructionSet level = widest_instruction_set());
/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019, arXiv:1711.05101).
template <typename T>
void adamw_step(const AdamPass<T>& pass, std::size_t begin, std::size_t end,
                InstructionSet level = widest_instruction_set());

template <>
void sgd_step(const SgdPass<float>&, std::size_t, std::size_t, InstructionSet);
template <>
void sgd_step(const SgdPass<double>&, std::size_t, std::size_t, InstructionSet);
template <>
void adam_step(const AdamPass<float>&, std::size_t, std::size_t, InstructionSet);
template <>
void adam_step(const AdamPass<double>&, std::size_t, std::size_t, InstructionSet);
template <>
void adamw_step(const AdamPass<float>&, std::size_t, std::size_t, InstructionSet);
template <>
void adamw_step(const AdamPass<double>&, std::size_t, std::size_t, InstructionSet);

/// Rounds elements [begin, end) of `from` to bf16, to nearest even, into `to`. Every instruction set gives the same
/// bits.
/// @return  true if an element of `to` had other bits before
bool round_to_bfloat16(const float* from, std::uint16_t* to, std::size_t begin, std::size_t end,
                       InstructionSet level = widest_instruction_set());

/// Sums of squares consist of blocks of this many elements. If the work is cut at multiples of it and the blocks' sums
/// are added in order, the result does not depend on the cuts.
constexpr std::size_t kSumBlock = 8192;

/// Sum of the squares of the gradient's elements [begin, end), in double: block by block of kSumBlock elements from
/// `begin`. Ignores `zero`. NaN or infinite exactly if an element is, as long as the squares stay in range.
double sum_of_squares(const GradientSource& gradient, std::size_t begin, std::size_t end,
                      InstructionSet level = widest_instruction_set());
/// Largest magnitude among elements [begin, end); NaN if one of them is NaN; 0 for an empty range.
double max_abs(const GradientSource& gradient, std::size_t begin, std::size_t end,
               InstructionSet level = widest_instruction_set());
/// Smallest magnitude; NaN if one of them is NaN; infinity for an empty range. One element at a time.
double min_abs(const GradientSource& gradient, std::size_t begin, std::size_t end);
/// Sum of the magnitudes to the power of `p`, in double. One element at a time.
double sum_of_powers(const GradientSource& gradient, double p, std::size_t begin, std::size_t end);

/// Replaces elements [begin, end) of the only source by the gradient as defined at GradientSource, factor included.
/// @return  true if all of the results are finite
bool scale_in_place(const GradientSource& gradient, std::size_t begin, std::size_t end,
                    InstructionSet level = widest_instruction_set());
/// True if all elements [begin, end) of the gradient are finite.
bool all_finite(const GradientSource& gradient, std::size_t begin, std::size_t end,
                InstructionSet level = widest_instruction_set());

}  // namespace lockstep
