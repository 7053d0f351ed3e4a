// The loops of reduce.h for one width of vectors, compiled several times: the including file sets the target and
// defines kVectorBytes and the conversions half_to_float and float_to_half between these. No inline functions of
// headers are used in here: the linker could take their copy for all callers.

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));  // NOLINT: an alias would drop the attribute
};
template <class T>
using Vector = typename VectorOf<T>::Type;

// Bytes of one element type, and the vector that they are combined in.
template <class T>
struct Plain {
  using Accumulator = Vector<T>;
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr std::size_t kStepBytes = kVectorBytes;
  static inline void load(Accumulator& to, const std::byte* from) { __builtin_memcpy(&to, from, kStepBytes); }
  static inline void store(std::byte* to, const Accumulator& from) { __builtin_memcpy(to, &from, kStepBytes); }
};

using HalfVector = std::uint16_t __attribute__((vector_size(kVectorBytes / 2)));

struct Half {
  using Accumulator = Vector<float>;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kStepBytes = kVectorBytes / 2;
  static inline void load(Accumulator& to, const std::byte* from) { half_to_float(to, from); }
  static inline void store(std::byte* to, const Accumulator& from) { float_to_half(to, from); }
};

struct BFloat16 {
  using Accumulator = Vector<float>;
  using Bits = Vector<std::uint32_t>;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kStepBytes = kVectorBytes / 2;
  static inline void load(Accumulator& to, const std::byte* from) {
    HalfVector half;
    __builtin_memcpy(&half, from, kStepBytes);
    const Bits bits = __builtin_convertvector(half, Bits) << 16;
    __builtin_memcpy(&to, &bits, kVectorBytes);
  }
  static inline void store(std::byte* to, const Accumulator& from) {
    Bits bits;
    __builtin_memcpy(&bits, &from, kVectorBytes);
    const Bits is_nan = (Bits)((bits & 0x7fffffffU) > 0x7f800000U);
    const Bits nearest_even = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const Bits rounded = (is_nan & 0x7fc0U) | (~is_nan & nearest_even);
    const HalfVector half = __builtin_convertvector(rounded, HalfVector);
    __builtin_memcpy(to, &half, kStepBytes);
  }
};

struct Sum {
  template <class V>
  static inline void combine(V& into, const V& value) {
    into = into + value;
  }
};
struct Product {
  template <class V>
  static inline void combine(V& into, const V& value) {
    into = into * value;
  }
};
// `value != value` keeps a NaN that comes; one that is there already fails every comparison and stays.
struct Min {
  template <class V>
  static inline void combine(V& into, const V& value) {
    into = ((value < into) | (value != value)) ? value : into;
  }
};
struct Max {
  template <class V>
  static inline void combine(V& into, const V& value) {
    into = ((value > into) | (value != value)) ? value : into;
  }
};

// Four vectors go together, so that enough loads are under way. Named, not an array: they shall stay in registers.
template <class Codec>
struct Block {
  using Accumulator = typename Codec::Accumulator;
  static constexpr std::size_t kStep = Codec::kStepBytes;
  static constexpr std::size_t kBytes = 4 * kStep;
  Accumulator a, b, c, d;

  inline void load(const std::byte* from) {
    Codec::load(a, from);
    Codec::load(b, from + kStep);
    Codec::load(c, from + 2 * kStep);
    Codec::load(d, from + 3 * kStep);
  }
  inline void store(std::byte* to) const {
    Codec::store(to, a);
    Codec::store(to + kStep, b);
    Codec::store(to + 2 * kStep, c);
    Codec::store(to + 3 * kStep, d);
  }
  template <class Op>
  inline void combine(const std::byte* from) {
    Block other;
    other.load(from);
    Op::combine(a, other.a);
    Op::combine(b, other.b);
    Op::combine(c, other.c);
    Op::combine(d, other.d);
  }
  inline void divide(float by) {
    a = a / by;
    b = b / by;
    c = c / by;
    d = d / by;
  }
};

template <class Codec, class Op, bool average>
struct Loop {
  using Sums = Block<Codec>;

  // Less than a block: through a block on the stack, so that there is one arithmetic only.
  static void tail(const std::byte* const* sources, int n_sources, std::byte* const* destinations, int n_destinations,
                   std::size_t at, std::size_t bytes) {
    Sums sums;
    alignas(64) std::byte padded[Sums::kBytes] = {};
    __builtin_memcpy(padded, sources[0] + at, bytes);
    sums.load(padded);
    for (int s = 1; s < n_sources; ++s) {
      __builtin_memcpy(padded, sources[s] + at, bytes);
      sums.template combine<Op>(padded);
    }
    if constexpr (average) sums.divide(static_cast<float>(n_sources));
    sums.store(padded);
    for (int d = 0; d < n_destinations; ++d) __builtin_memcpy(destinations[d] + at, padded, bytes);
  }

  // Pointers by value: a byte that is stored could be a part of an array of pointers. Four parts side by side keep more
  // of the processor's prefetchers busy: an eighth faster, from 64 KiB to 25 MiB.
  static std::size_t two_to_two(const std::byte* from0, const std::byte* from1, std::byte* to0, std::byte* to1,
                                std::size_t bytes) {
    const std::size_t part = bytes / (4 * Sums::kBytes) * Sums::kBytes;
    for (std::size_t at = 0; at < part; at += Sums::kBytes) {
      two_to_two_block(from0 + at, from1 + at, to0 + at, to1 + at);
      two_to_two_block(from0 + part + at, from1 + part + at, to0 + part + at, to1 + part + at);
      two_to_two_block(from0 + 2 * part + at, from1 + 2 * part + at, to0 + 2 * part + at, to1 + 2 * part + at);
      two_to_two_block(from0 + 3 * part + at, from1 + 3 * part + at, to0 + 3 * part + at, to1 + 3 * part + at);
    }
    return 4 * part;
  }
  static inline void two_to_two_block(const std::byte* from0, const std::byte* from1, std::byte* to0, std::byte* to1) {
    Sums sums;
    sums.load(from0);
    sums.template combine<Op>(from1);
    if constexpr (average) sums.divide(2);
    sums.store(to0);
    sums.store(to1);
  }

  static void run(const std::byte* const* sources, int n_sources, std::byte* const* destinations, int n_destinations,
                  std::size_t count) {
    const std::size_t bytes = count * Codec::kElementBytes;
    std::size_t at = 0;
    if (n_sources == 2 && n_destinations == 2) {
      at = two_to_two(sources[0], sources[1], destinations[0], destinations[1], bytes);
    }
    for (; at + Sums::kBytes <= bytes; at += Sums::kBytes) {
      Sums sums;
      sums.load(sources[0] + at);
      for (int s = 1; s < n_sources; ++s) sums.template combine<Op>(sources[s] + at);
      if constexpr (average) sums.divide(static_cast<float>(n_sources));
      for (int d = 0; d < n_destinations; ++d) sums.store(destinations[d] + at);
    }
    if (at < bytes) tail(sources, n_sources, destinations, n_destinations, at, bytes - at);
  }
};

// Integers: sums and products wrap, as unsigned ones do; Avg is refused before.
template <class Signed, class Unsigned>
constexpr std::array<ReduceLoop, kReductions> integer_row() {
  return {&Loop<Plain<Unsigned>, Sum, false>::run, nullptr, &Loop<Plain<Signed>, Min, false>::run,
          &Loop<Plain<Signed>, Max, false>::run, &Loop<Plain<Unsigned>, Product, false>::run};
}

template <class Codec>
constexpr std::array<ReduceLoop, kReductions> float_row() {
  return {&Loop<Codec, Sum, false>::run, &Loop<Codec, Sum, true>::run, &Loop<Codec, Min, false>::run,
          &Loop<Codec, Max, false>::run, &Loop<Codec, Product, false>::run};
}

constexpr ReduceTable kTable = {float_row<Plain<float>>(),
                                float_row<Plain<double>>(),
                                float_row<Half>(),
                                float_row<BFloat16>(),
                                integer_row<std::int32_t, std::uint32_t>(),
                                integer_row<std::int64_t, std::uint64_t>(),
                                integer_row<std::uint8_t, std::uint8_t>()};
