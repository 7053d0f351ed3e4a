#pragma once

// How kernels read and write memory, vector by vector. This is a part of kernel_loops.h; see its first comment.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// How much of a vector to touch: all of it, or the first `n` elements at the end of a range.
struct Whole {};
struct Part {
  std::size_t n;
};

/// Runs `body(i, width)` over [begin, end) in steps of one vector. The last elements run through the same instructions
/// as the others, so that an element's result does not depend on how the work is cut.
template <typename S, typename Body>
[[gnu::always_inline]] inline void for_each_vector(std::size_t begin, std::size_t end, const Body& body) {
  std::size_t i = begin;
  for (; i + S::kSize <= end; i += S::kSize) body(i, Whole{});
  if (i < end) body(i, Part{end - i});
}

template <typename S>
[[gnu::always_inline]] inline typename S::V load(const typename S::Element* p, Whole) {
  return S::load(p);
}
template <typename S>
[[gnu::always_inline]] inline typename S::V load(const typename S::Element* p, Part part) {
  return S::load(p, part.n);
}
template <typename S>
[[gnu::always_inline]] inline void store(typename S::Element* p, typename S::V v, Whole) {
  S::store(p, v);
}
template <typename S>
[[gnu::always_inline]] inline void store(typename S::Element* p, typename S::V v, Part part) {
  S::store(p, v, part.n);
}

/// Memory of S's own element type.
template <typename S>
struct SameType {
  using Memory = typename S::Element;
  using V = typename S::V;
  template <typename Width>
  [[gnu::always_inline]] static V load(const Memory* p, Width width) {
    return lockstep::load<S>(p, width);
  }
  template <typename Width>
  [[gnu::always_inline]] static void store(Memory* p, V v, Width width) {
    lockstep::store<S>(p, v, width);
  }
  [[gnu::always_inline]] static V round(V v) { return v; }
};

/// Memory with 16 bits per element, read into vectors of floats.
template <typename S, ElementType kType>
struct HalfType {
  using Memory = std::uint16_t;
  using V = typename S::V;
  static constexpr bool kBrain = kType == ElementType::BFloat16;
  [[gnu::always_inline]] static V expand(typename S::Bits bits) {
    if constexpr (kBrain) return S::from_bfloat16(bits);
    if constexpr (!kBrain) return S::from_half(bits);
  }
  [[gnu::always_inline]] static typename S::Bits shrink(V v) {
    if constexpr (kBrain) return S::to_bfloat16(v);
    if constexpr (!kBrain) return S::to_half(v);
  }
  [[gnu::always_inline]] static typename S::Bits load_bits(const Memory* p, Whole) { return S::load_bits(p); }
  [[gnu::always_inline]] static typename S::Bits load_bits(const Memory* p, Part part) {
    return S::load_bits(p, part.n);
  }
  template <typename Width>
  [[gnu::always_inline]] static V load(const Memory* p, Width width) {
    return expand(load_bits(p, width));
  }
  [[gnu::always_inline]] static void store(Memory* p, V v, Whole) { S::store_bits(p, shrink(v)); }
  [[gnu::always_inline]] static void store(Memory* p, V v, Part part) { S::store_bits(p, shrink(v), part.n); }
  [[gnu::always_inline]] static V round(V v) { return expand(shrink(v)); }
};

/// Prefetches memory that a loop will reach some vectors later. The processor's own prefetching stops at the end of
/// each page, which costs a twentieth of the time when several streams run side by side. Never faults.
[[gnu::always_inline]] inline void prefetch_ahead(const void* p) {
  constexpr std::uintptr_t kAheadBytes = 1024;
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(p) + kAheadBytes;  // perhaps behind the memory's end
  __builtin_prefetch(reinterpret_cast<const void*>(ahead));  // NOLINT(performance-no-int-to-ptr): never followed
}

/// Writes the bf16 copy of fp32 weights. For other weights, and without a copy, it does nothing.
template <typename S>
class CopyWriter {
 public:
  using V = typename S::V;

  explicit CopyWriter(const WeightCopy& copy) : out_(copy.out), was_stale_(copy.was_stale) {}

  /// Element `i` of the weights was `before` and is `after`.
  template <typename Width>
  [[gnu::always_inline]] void write(std::size_t i, V before, V after, Width width) const {
    if constexpr (std::is_same_v<typename S::Element, float>) {
      using Brain = HalfType<S, ElementType::BFloat16>;
      if (out_ == nullptr) return;
      prefetch_ahead(out_ + i);
      if (was_stale_ != nullptr && S::differ(Brain::load_bits(out_ + i, width), Brain::shrink(before))) {
        was_stale_->store(true, std::memory_order_relaxed);
      }
      Brain::store(out_ + i, after, width);
    }
  }

 private:
  std::uint16_t* out_;
  std::atomic<bool>* was_stale_;
};

/// The undo log of a pass over elements of S's type.
template <typename S>
class KernelLog {
 public:
  using T = typename S::Element;

  [[gnu::always_inline]] explicit KernelLog(const UndoLog& log) : log_(log) {}

  [[gnu::always_inline]] std::size_t block(std::size_t begin) const { return log_.block(begin); }

  [[gnu::always_inline]] void save(std::size_t begin, std::size_t elements, std::size_t slot) const {
    for (std::size_t a = 0; a < log_.num_arrays; ++a) {
      const T* const from = reinterpret_cast<const T*>(log_.arrays[a]) + begin;
      T* const to = reinterpret_cast<T*>(log_.place(slot, a));
      if constexpr (S::kSize == 1) {
        std::memcpy(to, from, elements * sizeof(T));
      } else {
        for_each_vector<S>(
            0, elements, [&](std::size_t i, auto width) __attribute__((always_inline)) {
              store<S>(to + i, load<S>(from + i, width), width);
            });
      }
    }
  }
  [[gnu::always_inline]] void mark(std::size_t begin, std::size_t elements, std::size_t slot) const {
    log_.mark(begin, elements, slot);
  }

 private:
  const UndoLog& log_;
};

/// Reads a GradientSource, vector by vector. kPlain: one source, read without division or factor.
template <typename S, typename M, bool kPlain = false>
class GradientReader {
 public:
  using Simd = S;
  using V = typename S::V;
  using Memory = typename M::Memory;

  explicit GradientReader(const GradientSource& source)
      : sources_(source.sources),
        first_(static_cast<Memory*>(source.sources[0])),
        num_sources_(source.num_sources),
        divides_(source.divisor != 1),
        scales_(source.factor != 1),
        rounds_(source.round),
        zero_(source.zero),
        divisor_(S::set(source.divisor)),
        factor_(S::set(source.factor)) {}

  template <typename Width>
  [[gnu::always_inline]] V read(std::size_t i, Width width) const {
    V sum = M::load(first_ + i, width);
    if constexpr (kPlain) return sum;
    for (std::size_t k = 1; k < num_sources_; ++k) {
      sum = S::add(sum, M::load(static_cast<const Memory*>(sources_[k]) + i, width));
    }
    if (divides_) sum = S::div(sum, divisor_);
    if (rounds_) sum = M::round(sum);
    if (scales_) {
      sum = S::rounded(S::mul(sum, factor_));
      if (rounds_) sum = M::round(sum);
    }
    return sum;
  }
  [[gnu::always_inline]] void prefetch(std::size_t i) const {
    for (std::size_t k = 0; k < num_sources_; ++k) prefetch_ahead(static_cast<const Memory*>(sources_[k]) + i);
  }
  /// Reads like `read`, and leaves zeros in memory if the source asks for that.
  template <typename Width>
  [[gnu::always_inline]] V take(std::size_t i, Width width) const {
    const V gradient = read(i, width);
    if (zero_) {
      for (std::size_t k = 0; k < num_sources_; ++k) M::store(static_cast<Memory*>(sources_[k]) + i, S::set(0), width);
    }
    return gradient;
  }
  /// `v` rounded as memory of the gradient's type keeps it.
  [[gnu::always_inline]] static V as_stored(V v) { return M::round(v); }
  template <typename Width>
  [[gnu::always_inline]] void replace(std::size_t i, V v, Width width) const {
    M::store(first_ + i, v, width);
  }

 private:
  void* const* sources_;
  Memory* first_;
  std::size_t num_sources_;
  bool divides_;
  bool scales_;
  bool rounds_;
  bool zero_;
  V divisor_;
  V factor_;
};

/// Calls `run` with the reader for the gradient's type. fp64 gradients use fp64 vectors, all others fp32.
template <template <typename> class Simd, typename T, bool kPlain = false, typename Run>
[[gnu::always_inline]] inline void with_reader(const GradientSource& source, const Run& run) {
  using S = Simd<T>;
  if constexpr (std::is_same_v<T, float>) {
    if (source.type == ElementType::BFloat16) {
      return run(GradientReader<S, HalfType<S, ElementType::BFloat16>, kPlain>(source));
    }
    if (source.type == ElementType::Half) {
      return run(GradientReader<S, HalfType<S, ElementType::Half>, kPlain>(source));
    }
  }
  return run(GradientReader<S, SameType<S>, kPlain>(source));
}

/// Calls `run` like with_reader, for loops that only read. A plain gradient gets a reader without the checks that it
/// does not need, so that the loop runs at the speed of memory.
template <template <typename> class Simd, typename Run>
[[gnu::always_inline]] inline void with_any_reader(const GradientSource& source, const Run& run) {
  const bool plain = source.num_sources == 1 && source.divisor == 1 && source.factor == 1;
  if (source.type == ElementType::Double) return with_reader<Simd, double>(source, run);
  return plain ? with_reader<Simd, float, true>(source, run) : with_reader<Simd, float>(source, run);
}

}  // namespace lockstep
