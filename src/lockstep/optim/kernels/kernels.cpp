#include "lockstep/optim/kernels/kernels.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "lockstep/optim/kernels/kernel_table.h"

namespace lockstep {
namespace {

const KernelTable& table(InstructionSet level) {
#if defined(__x86_64__)
  if (level == InstructionSet::Avx512) return kAvx512Kernels;
  if (level == InstructionSet::Avx2) return kAvx2Kernels;
#endif
  assert(level == InstructionSet::Baseline);
  return kScalarKernels;
}

double read_element(const GradientSource& gradient, std::size_t i, InstructionSet level) {
  // For a range of one element, the largest magnitude is that element's.
  return table(level).max_abs(gradient, i, i + 1);
}

}  // namespace

std::size_t element_size_bytes(ElementType type) {
  switch (type) {
    case ElementType::Float:
      return 4;
    case ElementType::Double:
      return 8;
    case ElementType::BFloat16:
    case ElementType::Half:
      return 2;
  }
  return 0;
}

template <>
void sgd_step(const SgdPass<float>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).sgd_float(pass, begin, end);
}
template <>
void sgd_step(const SgdPass<double>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).sgd_double(pass, begin, end);
}
template <>
void adam_step(const AdamPass<float>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).adam_float(pass, false, begin, end);
}
template <>
void adam_step(const AdamPass<double>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).adam_double(pass, false, begin, end);
}
template <>
void adamw_step(const AdamPass<float>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).adam_float(pass, true, begin, end);
}
template <>
void adamw_step(const AdamPass<double>& pass, std::size_t begin, std::size_t end, InstructionSet level) {
  if (begin < end) table(level).adam_double(pass, true, begin, end);
}

double sum_of_squares(const GradientSource& gradient, std::size_t begin, std::size_t end, InstructionSet level) {
  double sum = 0;
  for (std::size_t at = begin; at < end; at += std::min(kSumBlock, end - at)) {
    sum += table(level).block_sum_of_squares(gradient, at, at + std::min(kSumBlock, end - at));
  }
  return sum;
}

double max_abs(const GradientSource& gradient, std::size_t begin, std::size_t end, InstructionSet level) {
  return begin < end ? table(level).max_abs(gradient, begin, end) : 0;
}

double min_abs(const GradientSource& gradient, std::size_t begin, std::size_t end) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = begin; i < end; ++i) {
    const double value = read_element(gradient, i, widest_instruction_set());
    if (std::isnan(value) || value < smallest) smallest = value;
  }
  return smallest;
}

double sum_of_powers(const GradientSource& gradient, double p, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += std::pow(read_element(gradient, i, widest_instruction_set()), p);
  return sum;
}

bool round_to_bfloat16(const float* from, std::uint16_t* to, std::size_t begin, std::size_t end, InstructionSet level) {
  return begin < end && table(level).round_to_bfloat16(from, to, begin, end);
}

bool scale_in_place(const GradientSource& gradient, std::size_t begin, std::size_t end, InstructionSet level) {
  assert(gradient.num_sources == 1);
  return begin >= end || table(level).scale_in_place(gradient, begin, end);
}

bool all_finite(const GradientSource& gradient, std::size_t begin, std::size_t end, InstructionSet level) {
  return begin >= end || table(level).all_finite(gradient, begin, end);
}

}  // namespace lockstep
