#pragma once

// The kernels, written once for every instruction set: S is one of the classes in simd_*.h. A source file of one
// instruction set switches the compiler to it and then includes this.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lockstep/optim/kernel_table.h"
#include "lockstep/optim/kernels.h"

namespace lockstep {

/// How much of a vector to touch: all of it, or the first `n` elements at the end of a range.
struct Whole {};
struct Part {
  std::size_t n;
};

/// Runs `body(i, width)` over [begin, end) in steps of one vector. The last elements run through the same instructions
/// as the others, so that an element's result does not depend on where ranges were cut.
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

/// Memory of 16 bits an element, behind vectors of floats.
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
  [[gnu::always_inline]] static V load(const Memory* p, Whole) { return expand(S::load_bits(p)); }
  [[gnu::always_inline]] static V load(const Memory* p, Part part) { return expand(S::load_bits(p, part.n)); }
  [[gnu::always_inline]] static void store(Memory* p, V v, Whole) { S::store_bits(p, shrink(v)); }
  [[gnu::always_inline]] static void store(Memory* p, V v, Part part) { S::store_bits(p, shrink(v), part.n); }
  [[gnu::always_inline]] static V round(V v) { return expand(shrink(v)); }
};

/// Reads a GradientSource, vector by vector.
template <typename S, typename M>
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
  /// The same, and leaves zeros where that was asked for.
  template <typename Width>
  [[gnu::always_inline]] V take(std::size_t i, Width width) const {
    const V gradient = read(i, width);
    if (zero_) {
      for (std::size_t k = 0; k < num_sources_; ++k) M::store(static_cast<Memory*>(sources_[k]) + i, S::set(0), width);
    }
    return gradient;
  }
  /// `v` as memory of the gradient's type keeps it.
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

/// Calls `run` with the reader for the gradient's type. fp64 gradients go with fp64 vectors, all others with fp32.
template <template <typename> class Simd, typename T, typename Run>
[[gnu::always_inline]] inline auto with_reader(const GradientSource& source, const Run& run) {
  using S = Simd<T>;
  if constexpr (std::is_same_v<T, float>) {
    if (source.type == ElementType::BFloat16) {
      return run(GradientReader<S, HalfType<S, ElementType::BFloat16>>(source));
    }
    if (source.type == ElementType::Half) return run(GradientReader<S, HalfType<S, ElementType::Half>>(source));
  }
  return run(GradientReader<S, SameType<S>>(source));
}

template <template <typename> class Simd, typename Run>
[[gnu::always_inline]] inline auto with_any_reader(const GradientSource& source, const Run& run) {
  if (source.type == ElementType::Double) return with_reader<Simd, double>(source, run);
  return with_reader<Simd, float>(source, run);
}

/// p.add_(grad + weight_decay * p ..., -lr), as LibTorch computes it.
template <typename S, typename Reader>
class SgdBody {
 public:
  using T = typename S::Element;
  using V = typename S::V;

  SgdBody(const SgdPass<T>& pass, const Reader& gradient)
      : param_(pass.param),
        out_(pass.param_out),
        buffer_(pass.hyper.momentum != 0 ? pass.momentum_buffer : nullptr),
        first_(pass.first),
        decays_(pass.hyper.weight_decay != 0),
        nesterov_(pass.hyper.nesterov),
        gradient_(gradient),
        weight_decay_(S::set(pass.hyper.weight_decay)),
        momentum_(S::set(pass.hyper.momentum)),
        share_(S::set(1 - pass.hyper.dampening)),
        minus_lr_(S::set(-pass.hyper.lr)) {}

  template <typename Width>
  [[gnu::always_inline]] void operator()(std::size_t i, Width width) const {
    V g = gradient_.take(i, width);
    const V p = load<S>(param_ + i, width);
    if (decays_) g = S::fma(p, weight_decay_, g);
    if (buffer_ != nullptr) {
      V buffer = g;
      if (!first_) buffer = S::fma(g, share_, S::mul(load<S>(buffer_ + i, width), momentum_));
      store<S>(buffer_ + i, buffer, width);
      g = nesterov_ ? S::fma(buffer, momentum_, g) : buffer;
    }
    store<S>(out_ + i, S::fma(g, minus_lr_, p), width);
  }

 private:
  const T* param_;
  T* out_;
  T* buffer_;
  bool first_;
  bool decays_;
  bool nesterov_;
  Reader gradient_;
  V weight_decay_;
  V momentum_;
  V share_;
  V minus_lr_;
};

/// Adam, as LibTorch computes it: bias corrections in double, everything else in T, each operation rounded as there.
template <typename S, typename Reader>
class AdamBody {
 public:
  using T = typename S::Element;
  using V = typename S::V;

  AdamBody(const AdamPass<T>& pass, bool decoupled, const Reader& gradient)
      : param_(pass.param),
        out_(pass.param_out),
        exp_avg_(pass.exp_avg),
        exp_avg_sq_(pass.exp_avg_sq),
        max_(pass.max_exp_avg_sq),
        adds_decay_(pass.hyper.weight_decay != 0 && !decoupled),
        shrinks_(pass.hyper.weight_decay != 0 && decoupled),
        gradient_(gradient),
        weight_decay_(S::set(pass.hyper.weight_decay)),
        shrink_(S::set(1 - pass.hyper.lr * pass.hyper.weight_decay)),
        beta1_(S::set(pass.hyper.beta1)),
        beta2_(S::set(pass.hyper.beta2)),
        share1_(S::set(1 - pass.hyper.beta1)),
        share2_(S::set(1 - pass.hyper.beta2)),
        root_correction2_(S::set(std::sqrt(1 - std::pow(pass.hyper.beta2, static_cast<double>(pass.step))))),
        eps_(S::set(pass.hyper.eps)),
        minus_step_(S::set(-(pass.hyper.lr / (1 - std::pow(pass.hyper.beta1, static_cast<double>(pass.step)))))) {}

  template <typename Width>
  [[gnu::always_inline]] void operator()(std::size_t i, Width width) const {
    V g = gradient_.take(i, width);
    V p = load<S>(param_ + i, width);
    if (adds_decay_) g = S::fma(p, weight_decay_, g);
    if (shrinks_) p = S::rounded(S::mul(p, shrink_));
    const V m = S::fma(g, share1_, S::mul(load<S>(exp_avg_ + i, width), beta1_));
    store<S>(exp_avg_ + i, m, width);
    V v = S::fma(S::mul(share2_, g), g, S::mul(load<S>(exp_avg_sq_ + i, width), beta2_));
    store<S>(exp_avg_sq_ + i, v, width);
    if (max_ != nullptr) {
      v = S::max(load<S>(max_ + i, width), v);
      store<S>(max_ + i, v, width);
    }
    const V denominator = S::add(S::div(S::sqrt(v), root_correction2_), eps_);
    store<S>(out_ + i, S::add(p, S::div(S::mul(minus_step_, m), denominator)), width);
  }

 private:
  const T* param_;
  T* out_;
  T* exp_avg_;
  T* exp_avg_sq_;
  T* max_;
  bool adds_decay_;
  bool shrinks_;
  Reader gradient_;
  V weight_decay_;
  V shrink_;
  V beta1_;
  V beta2_;
  V share1_;
  V share2_;
  V root_correction2_;
  V eps_;
  V minus_step_;
};

template <template <typename> class Simd, typename T>
void run_sgd(const SgdPass<T>& pass, std::size_t begin, std::size_t end) {
  using S = Simd<T>;
  with_reader<Simd, T>(
      pass.gradient, [&](const auto& reader) __attribute__((always_inline)) {
        const SgdBody<S, std::decay_t<decltype(reader)>> body(pass, reader);
        for_each_vector<S>(begin, end, body);
      });
}

template <template <typename> class Simd, typename T>
void run_adam(const AdamPass<T>& pass, bool decoupled, std::size_t begin, std::size_t end) {
  using S = Simd<T>;
  with_reader<Simd, T>(
      pass.gradient, [&](const auto& reader) __attribute__((always_inline)) {
        const AdamBody<S, std::decay_t<decltype(reader)>> body(pass, decoupled, reader);
        for_each_vector<S>(begin, end, body);
      });
}

}  // namespace lockstep
