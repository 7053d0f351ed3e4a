#pragma once

// The kernels, written once for every instruction set: S is one of the classes in simd_*.h. A source file of one
// instruction set switches the compiler to it and then includes this.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lockstep/optim/kernels/kernel_memory.h"
#include "lockstep/optim/kernels/kernel_table.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/optim/kernels/undo_blocks.h"

namespace lockstep {

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
        copy_(pass.copy),
        gradient_(gradient),
        weight_decay_(S::set(pass.hyper.weight_decay)),
        momentum_(S::set(pass.hyper.momentum)),
        share_(S::set(1 - pass.hyper.dampening)),
        minus_lr_(S::set(-pass.hyper.lr)) {}

  template <typename Width>
  [[gnu::always_inline]] void operator()(std::size_t i, Width width) const {
    prefetch_ahead(param_ + i);
    if (buffer_ != nullptr) prefetch_ahead(buffer_ + i);
    gradient_.prefetch(i);
    V g = gradient_.take(i, width);
    const V p = load<S>(param_ + i, width);
    if (decays_) g = S::fma(p, weight_decay_, g);
    if (buffer_ != nullptr) {
      V buffer = g;
      if (!first_) buffer = S::fma(g, share_, S::mul(load<S>(buffer_ + i, width), momentum_));
      store<S>(buffer_ + i, buffer, width);
      g = nesterov_ ? S::fma(buffer, momentum_, g) : buffer;
    }
    const V updated = S::fma(g, minus_lr_, p);
    store<S>(out_ + i, updated, width);
    copy_.write(i, p, updated, width);
  }

 private:
  const T* param_;
  T* out_;
  T* buffer_;
  bool first_;
  bool decays_;
  bool nesterov_;
  CopyWriter<S> copy_;
  Reader gradient_;
  V weight_decay_;
  V momentum_;
  V share_;
  V minus_lr_;
};

/// Adam, as LibTorch computes it: bias corrections in double, everything else in T, each operation rounded as in
/// LibTorch.
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
        copy_(pass.copy),
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
    prefetch_ahead(param_ + i);
    prefetch_ahead(exp_avg_ + i);
    prefetch_ahead(exp_avg_sq_ + i);
    gradient_.prefetch(i);
    V g = gradient_.take(i, width);
    const V before = load<S>(param_ + i, width);
    V p = before;
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
    const V updated = S::add(p, S::div(S::mul(minus_step_, m), denominator));
    store<S>(out_ + i, updated, width);
    copy_.write(i, before, updated, width);
  }

 private:
  const T* param_;
  T* out_;
  T* exp_avg_;
  T* exp_avg_sq_;
  T* max_;
  bool adds_decay_;
  bool shrinks_;
  CopyWriter<S> copy_;
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

/// Runs `body` over [begin, end), with or without a log of what it overwrites.
template <typename S, typename Body>
[[gnu::always_inline]] inline void for_each_vector_or_block(const UndoLog& undo, std::size_t begin, std::size_t end,
                                                            const Body& body) {
  if (undo.word == nullptr) return for_each_vector<S>(begin, end, body);
  update_with_undo(
      KernelLog<S>(undo), begin, end, [&](std::size_t from, std::size_t to) __attribute__((always_inline)) {
        for_each_vector<S>(from, to, body);
      });
}

template <template <typename> class Simd, typename T>
void run_sgd(const SgdPass<T>& pass, std::size_t begin, std::size_t end) {
  using S = Simd<T>;
  with_reader<Simd, T>(
      pass.gradient, [&](const auto& reader) __attribute__((always_inline)) {
        const SgdBody<S, std::decay_t<decltype(reader)>> body(pass, reader);
        for_each_vector_or_block<S>(pass.undo, begin, end, body);
      });
}

template <template <typename> class Simd, typename T>
void run_adam(const AdamPass<T>& pass, bool decoupled, std::size_t begin, std::size_t end) {
  using S = Simd<T>;
  with_reader<Simd, T>(
      pass.gradient, [&](const auto& reader) __attribute__((always_inline)) {
        const AdamBody<S, std::decay_t<decltype(reader)>> body(pass, decoupled, reader);
        for_each_vector_or_block<S>(pass.undo, begin, end, body);
      });
}

template <template <typename> class Simd>
bool round_weights(const float* from, std::uint16_t* to, std::size_t begin, std::size_t end) {
  using S = Simd<float>;
  std::atomic<bool> differed{false};
  const CopyWriter<S> writer({to, &differed});
  for_each_vector<S>(
      begin, end, [&](std::size_t i, auto width) __attribute__((always_inline)) {
        prefetch_ahead(from + i);
        const typename S::V weight = load<S>(from + i, width);
        writer.write(i, weight, weight, width);
      });
  return differed.load(std::memory_order_relaxed);
}

}  // namespace lockstep
