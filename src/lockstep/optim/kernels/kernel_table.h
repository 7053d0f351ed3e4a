#pragma once

#include <cstddef>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// The kernels of one instruction set. Callers have checked the arguments; ranges are not empty.
struct KernelTable {
  void (*sgd_float)(const SgdPass<float>&, std::size_t begin, std::size_t end);
  void (*sgd_double)(const SgdPass<double>&, std::size_t begin, std::size_t end);
  void (*adam_float)(const AdamPass<float>&, bool decoupled, std::size_t begin, std::size_t end);
  void (*adam_double)(const AdamPass<double>&, bool decoupled, std::size_t begin, std::size_t end);
  double (*block_sum_of_squares)(const GradientSource&, std::size_t begin, std::size_t end);
  double (*max_abs)(const GradientSource&, std::size_t begin, std::size_t end);
  bool (*scale_in_place)(const GradientSource&, std::size_t begin, std::size_t end);
  bool (*all_finite)(const GradientSource&, std::size_t begin, std::size_t end);
  bool (*round_to_bfloat16)(const float* from, std::uint16_t* to, std::size_t begin, std::size_t end);
};

extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
#endif

}  // namespace lockstep
