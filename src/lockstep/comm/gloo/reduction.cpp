#include "lockstep/comm/gloo/reduction.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

// Values are combined block by block in an accumulator that stays in the first-level cache. The inner loops are plain,
// without branches, so that the compiler turns them into vector instructions.
constexpr std::int64_t kBlock = 1024;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return (a < b) | (a != a) ? a : b;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return (a > b) | (a != a) ? a : b;
  }
};

template <typename T>
struct Plain {
  using Accumulator = T;
  static void load(T* to, const void* from, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
  static void store(void* to, const T* from, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
  static constexpr std::size_t kBytes = sizeof(T);
};

struct BFloat16 {
  using Accumulator = float;
  static void load(float* to, const void* from, std::int64_t count) {
    const auto* values = static_cast<const std::uint16_t*>(from);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(values[i]) << 16;
      std::memcpy(to + i, &bits, sizeof(bits));
    }
  }
  static void store(void* to, const float* from, std::int64_t count) {
    auto* values = static_cast<std::uint16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, from + i, sizeof(bits));
      const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
      const bool nan = (bits & 0x7fffffff) > 0x7f800000;
      values[i] = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : rounded);
    }
  }
  static constexpr std::size_t kBytes = 2;
};

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void load_half_f16c(float* to, const std::uint16_t* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i]);
}
__attribute__((target("avx,f16c"))) void store_half_f16c(std::uint16_t* to, const float* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  }
  for (; i < count; ++i) to[i] = static_cast<std::uint16_t>(_cvtss_sh(from[i], 0));
}
bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}
#endif

struct Half {
  using Accumulator = float;
  static void load(float* to, const void* from, std::int64_t count) {
    const auto* values = static_cast<const std::uint16_t*>(from);
#if defined(__x86_64__)
    if (has_f16c()) return load_half_f16c(to, values, count);
#endif
    for (std::int64_t i = 0; i < count; ++i) to[i] = c10::detail::fp16_ieee_to_fp32_value(values[i]);
  }
  static void store(void* to, const float* from, std::int64_t count) {
    auto* values = static_cast<std::uint16_t*>(to);
#if defined(__x86_64__)
    if (has_f16c()) return store_half_f16c(values, from, count);
#endif
    for (std::int64_t i = 0; i < count; ++i) values[i] = c10::detail::fp16_ieee_from_fp32_value(from[i]);
  }
  static constexpr std::size_t kBytes = 2;
};

template <typename Type, typename Op>
void reduce_blocks(void* out, const void* const* in, int inputs, std::int64_t count, double divisor) {
  using T = typename Type::Accumulator;
  T sum[kBlock];
  T next[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    const std::size_t offset = static_cast<std::size_t>(begin) * Type::kBytes;
    Type::load(sum, static_cast<const char*>(in[0]) + offset, length);
    for (int k = 1; k < inputs; ++k) {
      Type::load(next, static_cast<const char*>(in[k]) + offset, length);
      for (std::int64_t i = 0; i < length; ++i) sum[i] = Op::apply(sum[i], next[i]);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (divisor != 1) {
        const T by = static_cast<T>(divisor);
        for (std::int64_t i = 0; i < length; ++i) sum[i] = sum[i] / by;
      }
    }
    Type::store(static_cast<char*>(out) + offset, sum, length);
  }
}

template <typename Type, typename Ordered = Type>
void reduce_type(ReduceOp op, void* out, const void* const* in, int inputs, std::int64_t count) {
  switch (op) {
    case ReduceOp::Sum:
      return reduce_blocks<Type, Sum>(out, in, inputs, count, 1);
    case ReduceOp::Avg:
      return reduce_blocks<Type, Sum>(out, in, inputs, count, inputs);
    case ReduceOp::Min:
      return reduce_blocks<Ordered, Min>(out, in, inputs, count, 1);
    case ReduceOp::Max:
      return reduce_blocks<Ordered, Max>(out, in, inputs, count, 1);
    case ReduceOp::Product:
      return reduce_blocks<Type, Product>(out, in, inputs, count, 1);
  }
}

}  // namespace

void reduce_arrays(c10::ScalarType dtype, ReduceOp op, void* out, const void* const* in, int inputs,
                   std::int64_t count) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return reduce_type<Plain<float>>(op, out, in, inputs, count);
    case c10::ScalarType::Double:
      return reduce_type<Plain<double>>(op, out, in, inputs, count);
    case c10::ScalarType::Half:
      return reduce_type<Half>(op, out, in, inputs, count);
    case c10::ScalarType::BFloat16:
      return reduce_type<BFloat16>(op, out, in, inputs, count);
    // Sums and products as unsigned numbers: these wrap around, signed ones are undefined where they overflow.
    case c10::ScalarType::Int:
      return reduce_type<Plain<std::uint32_t>, Plain<std::int32_t>>(op, out, in, inputs, count);
    case c10::ScalarType::Long:
      return reduce_type<Plain<std::uint64_t>, Plain<std::int64_t>>(op, out, in, inputs, count);
    case c10::ScalarType::Byte:
      return reduce_type<Plain<std::uint8_t>>(op, out, in, inputs, count);
    default:
      std::abort();  // the communicator checks dtypes before
  }
}

}  // namespace lockstep
