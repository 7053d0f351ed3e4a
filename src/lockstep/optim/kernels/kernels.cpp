#include "lockstep/optim/kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cassert>
#include <cmath>

#include "lockstep/optim/kernels/kernel_table.h"

namespace lockstep {
namespace {

std::vector<SimdLevel> detect_simd_levels() {
  std::vector<SimdLevel> levels{SimdLevel::Scalar};
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2) levels.push_back(SimdLevel::Avx2);
  if (avx2 && avx512) levels.push_back(SimdLevel::Avx512);
#endif
  return levels;
}

const KernelTable& table(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::Avx512) return kAvx512Kernels;
  if (level == SimdLevel::Avx2) return kAvx2Kernels;
#endif
  assert(level == SimdLevel::Scalar);
  return kScalarKernels;
}

double read_element(const GradientSource& gradient, std::size_t i, SimdLevel level) {
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

const std::vector<SimdLevel>& available_simd_levels() {
  static const std::vector<SimdLevel> levels = detect_simd_levels();
  return levels;
}

template <>
void sgd_step(const SgdPass<float>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).sgd_float(pass, begin, end);
}
template <>
void sgd_step(const SgdPass<double>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).sgd_double(pass, begin, end);
}
template <>
void adam_step(const AdamPass<float>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).adam_float(pass, false, begin, end);
}
template <>
void adam_step(const AdamPass<double>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).adam_double(pass, false, begin, end);
}
template <>
void adamw_step(const AdamPass<float>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).adam_float(pass, true, begin, end);
}
template <>
void adamw_step(const AdamPass<double>& pass, std::size_t begin, std::size_t end, SimdLevel level) {
  if (begin < end) table(level).adam_double(pass, true, begin, end);
}

double sum_of_squares(const GradientSource& gradient, std::size_t begin, std::size_t end, SimdLevel level) {
  double sum = 0;
  for (std::size_t at = begin; at < end; at += std::min(kSumBlock, end - at)) {
    sum += table(level).block_sum_of_squares(gradient, at, at + std::min(kSumBlock, end - at));
  }
  return sum;
}

double max_abs(const GradientSource& gradient, std::size_t begin, std::size_t end, SimdLevel level) {
  return begin < end ? table(level).max_abs(gradient, begin, end) : 0;
}

double sum_of_powers(const GradientSource& gradient, double p, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += std::pow(read_element(gradient, i, best_simd_level()), p);
  return sum;
}

bool scale_in_place(const GradientSource& gradient, std::size_t begin, std::size_t end, SimdLevel level) {
  assert(gradient.num_sources == 1);
  return begin >= end || table(level).scale_in_place(gradient, begin, end);
}

bool all_finite(const GradientSource& gradient, std::size_t begin, std::size_t end, SimdLevel level) {
  return begin >= end || table(level).all_finite(gradient, begin, end);
}

}  // namespace lockstep
