#include "lockstep/models/layers/attention_function.h"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The heads of one text, [heads, length, head_size], inside a matrix with one row per token.
struct Heads {
  const at::Tensor* matrix;
  std::int64_t first_column;
  std::int64_t size;  // size of a head
  const AttentionOptions* options;

  at::Tensor of_text(std::int64_t text) const {
    const std::int64_t row = matrix->stride(0);
    return matrix->as_strided({options->heads, options->length, size}, {size, row, 1},
                              matrix->storage_offset() + text * options->length * row + first_column);
  }
};

// out = alpha · a·b, for each head. For small products LibTorch's baddbmm multiplies the old content of `out` by beta =
// 0, which keeps a NaN; in bf16 some versions take twice as long for it as for bmm.
void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b, double alpha = 1) {
  constexpr std::int64_t kSmall = 400;
  const bool is_small = a.size(1) * a.size(2) * b.size(2) < kSmall;
  if (alpha != 1 && !is_small && out.scalar_type() != at::kBFloat16) {
    at::baddbmm_out(out, out, a, b, /*beta=*/0, alpha);
    return;
  }
  at::bmm_out(out, a, b);
  if (alpha != 1) out.mul_(alpha);
}

at::Tensor drop(const at::Tensor& x, DropoutDraw draw, at::Tensor out) {
  if (x.scalar_type() == at::kDouble) {
    drop_values(x.data_ptr<double>(), out.data_ptr<double>(), x.numel(), draw);
  } else if (x.scalar_type() == at::kBFloat16) {
    drop_values(x.data_ptr<at::BFloat16>(), out.data_ptr<at::BFloat16>(), x.numel(), draw);
  } else {
    drop_values(x.data_ptr<float>(), out.data_ptr<float>(), x.numel(), draw);
  }
  return out;
}

// An fp32 mask has numbers below the lowest of bf16, which would become infinite.
at::Tensor mask_in(at::ScalarType type, const at::Tensor& mask) {
  return type == at::kBFloat16 ? mask.clamp_min(lowest_number(type)).to(type) : mask;
}

at::Tensor probabilities_of(const Heads& q, const Heads& k, const AttentionOptions& o) {
  at::Tensor scores = at::empty({o.size, o.heads, o.length, o.length}, q.matrix->options());
  for (std::int64_t i = 0; i < o.size; ++i) {
    multiply(scores.select(0, i), q.of_text(i), k.of_text(i).transpose(1, 2), o.scale);
  }
  if (o.is_causal) {
    scores.masked_fill_(forbidden_by_causality(o.length, scores.device()), lowest_number(scores.scalar_type()));
  }
  if (o.mask.defined()) scores.add_(mask_in(scores.scalar_type(), o.mask));
  return at::_softmax(scores, -1, false);
}

struct Packed {
  Heads q, k, v;
  Packed(const at::Tensor& matrix, const AttentionOptions& o)
      : q{&matrix, 0, matrix.size(1) / 3 / o.heads, &o}, k(q), v(q) {
    k.first_column = matrix.size(1) / 3;
    v.first_column = 2 * k.first_column;
  }
};

// Carries the options besides the tensors that backward needs.
struct SavedOptions : torch::CustomClassHolder {
  AttentionOptions options;
  DropoutDraw draw;
};

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionOptions& o) {
    auto saved = c10::make_intrusive<SavedOptions>();
    saved->options = o;
    if (o.dropout_p > 0) saved->draw = draw_dropout(o.dropout_p);
    const Packed heads(qkv, o);
    const at::Tensor probabilities = probabilities_of(heads.q, heads.k, o);
    const at::Tensor kept =
        o.dropout_p > 0 ? drop(probabilities, saved->draw, at::empty_like(probabilities)) : probabilities;
    at::Tensor out = at::empty({qkv.size(0), qkv.size(1) / 3}, qkv.options());
    const Heads result{&out, 0, heads.q.size, &o};
    for (std::int64_t i = 0; i < o.size; ++i) multiply(result.of_text(i), kept.select(0, i), heads.v.of_text(i));
    context->save_for_backward({qkv, probabilities});
    context->saved_data["options"] = at::IValue::make_capsule(std::move(saved));
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list tensors = context->get_saved_variables();
    const auto saved = c10::static_intrusive_pointer_cast<SavedOptions>(context->saved_data["options"].toCapsule());
    if (c10::GradMode::is_enabled()) return {differentiable(tensors[0], gradients[0], *saved), at::Tensor()};
    return {gradient(tensors[0], tensors[1], gradients[0].contiguous(), *saved), at::Tensor()};
  }

 private:
  static at::Tensor gradient(const at::Tensor& qkv, const at::Tensor& probabilities, const at::Tensor& dy,
                             const SavedOptions& saved) {
    const AttentionOptions& o = saved.options;
    const Packed heads(qkv, o);
    const at::Tensor result = at::empty(qkv.sizes(), qkv.options());
    const Packed d(result, o);
    const Heads d_context{&dy, 0, heads.q.size, &o};
    at::Tensor work = at::empty_like(probabilities);
    const at::Tensor kept = o.dropout_p > 0 ? drop(probabilities, saved.draw, work) : probabilities;
    for (std::int64_t i = 0; i < o.size; ++i) {
      multiply(d.v.of_text(i), kept.select(0, i).transpose(1, 2), d_context.of_text(i));
    }
    for (std::int64_t i = 0; i < o.size; ++i) {
      multiply(work.select(0, i), d_context.of_text(i), heads.v.of_text(i).transpose(1, 2));
    }
    if (o.dropout_p > 0) drop(work, saved.draw, work);
    at::Tensor d_scores = at::_softmax_backward_data(work, probabilities, -1, probabilities.scalar_type());
    // If all tokens that a token may see are padding, forbidden tokens have probability too.
    if (o.is_causal && o.mask.defined()) d_scores.masked_fill_(forbidden_by_causality(o.length, dy.device()), 0);
    for (std::int64_t i = 0; i < o.size; ++i) {
      multiply(d.q.of_text(i), d_scores.select(0, i), heads.k.of_text(i), o.scale);
      multiply(d.k.of_text(i), d_scores.select(0, i).transpose(1, 2), heads.q.of_text(i), o.scale);
    }
    return result;
  }

  // For gradients of gradients: computes the result by operators that are differentiable themselves.
  static at::Tensor differentiable(const at::Tensor& qkv, const at::Tensor& dy, const SavedOptions& saved) {
    const std::int64_t size = qkv.size(1) / 3;
    const std::optional<DropoutDraw> draw =
        saved.options.dropout_p > 0 ? std::optional<DropoutDraw>(saved.draw) : std::nullopt;
    const at::Tensor out = composed_attention(qkv.narrow(1, 0, size), qkv.narrow(1, size, size),
                                              qkv.narrow(1, 2 * size, size), saved.options, draw);
    return torch::autograd::grad({out}, {qkv}, {dy}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  }
};

}  // namespace

at::Tensor packed_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  return PackedAttention::apply(qkv, options);
}

}  // namespace lockstep
