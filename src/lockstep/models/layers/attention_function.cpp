#include "lockstep/models/layers/attention_function.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/attention_heads.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Carries the options besides the tensors that backward needs.
struct SavedOptions : torch::CustomClassHolder {
  explicit SavedOptions(const AttentionOptions& given) : options(given) {
    if (options.dropout_p > 0) draw = draw_dropout(options.dropout_p);
  }
  AttentionOptions options;
  std::optional<DropoutDraw> draw;
};

void save_options(AutogradContext* context, c10::intrusive_ptr<SavedOptions> saved) {
  context->saved_data["options"] = at::IValue::make_capsule(std::move(saved));
}

c10::intrusive_ptr<SavedOptions> saved_options(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<SavedOptions>(context->saved_data["options"].toCapsule());
}

AttentionHeads packed_heads(const at::Tensor& matrix, const AttentionOptions& o) {
  const std::int64_t size = matrix.size(1) / 3;
  return {{matrix, 0}, {matrix, size}, {matrix, 2 * size}, size / o.heads, /*first_only=*/false};
}

AttentionHeads heads_of_first(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& o) {
  return {{q, 0}, {k, 0}, {v, 0}, q.size(1) / o.heads, /*first_only=*/true};
}

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionOptions& options) {
    auto saved = c10::make_intrusive<SavedOptions>(options);
    const AttentionResult result = attend_heads(packed_heads(qkv, options), saved->options, saved->draw);
    context->save_for_backward({qkv, result.probabilities});
    save_options(context, std::move(saved));
    return result.context;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list tensors = context->get_saved_variables();
    const at::Tensor &qkv = tensors[0], &dy = gradients[0];
    const auto saved = saved_options(context);
    if (c10::GradMode::is_enabled()) return {differentiable(qkv, dy, *saved), at::Tensor()};
    const at::Tensor result = at::empty(qkv.sizes(), qkv.options());
    attend_heads_backward(packed_heads(qkv, saved->options), saved->options, saved->draw, tensors[1], dy.contiguous(),
                          packed_heads(result, saved->options));
    return {result, at::Tensor()};
  }

 private:
  // For gradients of gradients: computes the result by operators that are differentiable themselves.
  static at::Tensor differentiable(const at::Tensor& qkv, const at::Tensor& dy, const SavedOptions& saved) {
    const std::int64_t size = qkv.size(1) / 3;
    const at::Tensor q = qkv.narrow(1, 0, size), k = qkv.narrow(1, size, size), v = qkv.narrow(1, 2 * size, size);
    const at::Tensor out = saved.options.starts.empty()
                               ? composed_attention(q, k, v, saved.options, saved.draw)
                               : composed_attention_by_text(q, k, v, saved.options, saved.draw);
    return torch::autograd::grad({out}, {qkv}, {dy}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  }
};

class FirstTokenAttention : public torch::autograd::Function<FirstTokenAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionOptions& options) {
    auto saved = c10::make_intrusive<SavedOptions>(options);
    const AttentionResult result = attend_heads(heads_of_first(q, k, v, options), saved->options, saved->draw);
    context->save_for_backward({q, k, v, result.probabilities});
    save_options(context, std::move(saved));
    return result.context;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list tensors = context->get_saved_variables();
    const at::Tensor &q = tensors[0], &k = tensors[1], &v = tensors[2], &dy = gradients[0];
    const auto saved = saved_options(context);
    const AttentionOptions& o = saved->options;
    if (c10::GradMode::is_enabled()) {
      const at::Tensor out = composed_attention_by_text(q, k, v, o, saved->draw);
      variable_list result =
          torch::autograd::grad({out}, {q, k, v}, {dy}, /*retain_graph=*/true, /*create_graph=*/true);
      result.emplace_back();
      return result;
    }
    const at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options());
    const at::Tensor dv = at::empty(v.sizes(), v.options());
    attend_heads_backward(heads_of_first(q, k, v, o), o, saved->draw, tensors[3], dy.contiguous(),
                          heads_of_first(dq, dk, dv, o));
    return {dq, dk, dv, at::Tensor()};
  }
};

}  // namespace

at::Tensor packed_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  return PackedAttention::apply(qkv, options);
}

at::Tensor first_token_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionOptions& options) {
  return FirstTokenAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), options);
}

}  // namespace lockstep
