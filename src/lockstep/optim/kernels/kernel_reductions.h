#pragma once

// Kernels that read gradients and return a number, written once for every instruction set, like kernel_loops.h.

#include "lockstep/optim/kernels/kernel_loops.h"

namespace lockstep {

/// Sum of squares of at most kSumBlock elements, in 16 double sums by index modulo 16 for every vector size, so that
/// every instruction set gives the same bits.
template <template <typename> class Simd>
double block_sum_of_squares(const GradientSource& source, std::size_t begin, std::size_t end) {
  constexpr std::size_t kLanes = 16;
  double lanes[kLanes];
  with_any_reader<Simd>(
      source, [&](const auto& reader) __attribute__((always_inline)) {
        using S = typename std::decay_t<decltype(reader)>::Simd;
        constexpr std::size_t kVectors = kLanes / S::kSize;
        typename S::Sum sums[kVectors];
        std::size_t i = begin;
        for (; i + kLanes <= end; i += kLanes) {
          reader.prefetch(i);
#pragma GCC unroll 16
          for (std::size_t k = 0; k < kVectors; ++k) sums[k].add_square(reader.read(i + k * S::kSize, Whole{}));
        }
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kVectors; ++k) {
          const std::size_t at = i + k * S::kSize;
          if (at < end && at + S::kSize <= end) sums[k].add_square(reader.read(at, Whole{}));
          if (at < end && at + S::kSize > end) sums[k].add_square(reader.read(at, Part{end - at}));
        }
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kVectors; ++k) sums[k].store(lanes + k * S::kSize);
      });
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  }
  return lanes[0];
}

template <template <typename> class Simd>
double largest_magnitude(const GradientSource& source, std::size_t begin, std::size_t end) {
  double largest = 0;
  with_any_reader<Simd>(
      source, [&](const auto& reader) __attribute__((always_inline)) {
        using S = typename std::decay_t<decltype(reader)>::Simd;
        typename S::V best = S::set(0);
        for_each_vector<S>(
            begin, end, [&](std::size_t i, auto width) __attribute__((always_inline)) {
              reader.prefetch(i);
              best = S::max(best, S::abs(reader.read(i, width)));
            });
        typename S::Element lanes[S::kSize];
        S::store(lanes, best);
        for (const auto lane : lanes)
          largest = std::isnan(lane) || lane > largest ? static_cast<double>(lane) : largest;
      });
  return largest;
}

/// True if all lanes are zero; a lane with NaN is not zero.
template <typename S>
[[gnu::always_inline]] inline bool all_zero(typename S::V v) {
  typename S::Element lanes[S::kSize];
  S::store(lanes, v);
  bool zero = true;
  for (const auto lane : lanes) zero = zero && lane == 0;
  return zero;
}

template <template <typename> class Simd>
bool scale_source(const GradientSource& source, std::size_t begin, std::size_t end) {
  bool finite = false;
  with_any_reader<Simd>(
      source, [&](const auto& reader) __attribute__((always_inline)) {
        using S = typename std::decay_t<decltype(reader)>::Simd;
        typename S::V check = S::set(0);  // x - x is 0 for a finite x and NaN otherwise; a sum keeps a NaN
        for_each_vector<S>(
            begin, end, [&](std::size_t i, auto width) __attribute__((always_inline)) {
              reader.prefetch(i);
              const typename S::V scaled = reader.as_stored(reader.read(i, width));
              reader.replace(i, scaled, width);
              check = S::add(check, S::sub(scaled, scaled));
            });
        finite = all_zero<S>(check);
      });
  return finite;
}

template <template <typename> class Simd>
bool source_is_finite(const GradientSource& source, std::size_t begin, std::size_t end) {
  bool finite = false;
  with_any_reader<Simd>(
      source, [&](const auto& reader) __attribute__((always_inline)) {
        using S = typename std::decay_t<decltype(reader)>::Simd;
        typename S::V check = S::set(0);
        for_each_vector<S>(
            begin, end, [&](std::size_t i, auto width) __attribute__((always_inline)) {
              reader.prefetch(i);
              const typename S::V value = reader.read(i, width);
              check = S::add(check, S::sub(value, value));
            });
        finite = all_zero<S>(check);
      });
  return finite;
}

}  // namespace lockstep
