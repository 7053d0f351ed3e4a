#include "lockstep/models/layers/dense_function.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/tensor/compute_copy.h"
#include "lockstep/tensor/gradient_in_place.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  if (layout == WeightLayout::OutIn) return at::linear(x, weight, bias);
  return bias.defined() ? at::addmm(bias, x, weight) : at::mm(x, weight);
}

at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& dy, WeightLayout layout) {
  const at::Tensor left = layout == WeightLayout::OutIn ? dy.t() : x.t();
  const at::Tensor& right = layout == WeightLayout::OutIn ? x : dy;
  at::Tensor in_place = gradient_in_place(weight);
  if (!in_place.defined() || in_place.scalar_type() != x.scalar_type()) {
    return hand_over_gradient(weight, at::mm(left, right));
  }
  in_place.addmm_(left, right);
  return {};
}

at::Tensor bias_gradient(const at::Tensor& bias, const at::Tensor& dy) { return hand_over_gradient(bias, dy.sum(0)); }

// sum += a·b; in place unless a graph of it is needed.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (!sum.defined()) {
    sum = at::mm(a, b);
  } else if (c10::GradMode::is_enabled()) {
    sum = sum.addmm(a, b);
  } else {
    sum.addmm_(a, b);
  }
}

class DenseFunction : public torch::autograd::Function<DenseFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, WeightLayout layout) {
    const at::Tensor factor = compute_copy(weight, x.scalar_type());
    context->save_for_backward({x, weight, factor, bias});
    context->saved_data["layout"] = static_cast<std::int64_t>(layout);
    return product(x, factor, compute_copy(bias, x.scalar_type()), layout);
  }

  // The variant without bias: an undefined tensor may not be an argument.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            WeightLayout layout) {
    const at::Tensor factor = compute_copy(weight, x.scalar_type());
    context->save_for_backward({x, weight, factor});
    context->saved_data["layout"] = static_cast<std::int64_t>(layout);
    return product(x, factor, {}, layout);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &dy = gradients[0];
    const auto layout = static_cast<WeightLayout>(context->saved_data["layout"].toInt());
    variable_list result(saved.size());
    // A graph of the gradients needs the cast of the weight in it.
    const at::Tensor factor = c10::GradMode::is_enabled() ? weight.to(x.scalar_type()) : saved[2];
    if (x.requires_grad()) result[0] = at::mm(dy, layout == WeightLayout::OutIn ? factor : factor.t());
    if (weight.requires_grad()) result[1] = weight_gradient(x, weight, dy, layout);
    if (saved.size() == 4 && saved[3].requires_grad()) result[2] = bias_gradient(saved[3], dy);
    return result;
  }
};

class DenseBesideFunction : public torch::autograd::Function<DenseBesideFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w0, const at::Tensor& b0,
                            const at::Tensor& w1, const at::Tensor& b1, const at::Tensor& w2, const at::Tensor& b2) {
    variable_list saved{x, w0, b0, w1, b1, w2, b2};
    const std::int64_t size = w0.size(0);
    if (x.scalar_type() != w0.scalar_type()) {
      // The weights lie above each other, because a published copy has them so or a cast puts them so: one product of
      // three.
      const at::Tensor factor = compute_copies_joined({w0, w1, w2}, x.scalar_type());
      const variable_list gathered = gathered_copies({w0, w1, w2}, x.scalar_type());
      if (gathered.empty()) {
        saved.push_back(factor);
      } else {
        saved.insert(saved.end(), gathered.begin(), gathered.end());
      }
      context->save_for_backward(saved);
      return at::linear(x, factor, compute_copies_joined({b0, b1, b2}, x.scalar_type()));
    }
    context->save_for_backward(saved);
    const at::Tensor out = at::empty({x.size(0), 3 * size}, x.options());
    const std::pair<const at::Tensor*, const at::Tensor*> layers[] = {{&w0, &b0}, {&w1, &b1}, {&w2, &b2}};
    std::int64_t column = 0;
    for (const auto& [weight, bias] : layers) {
      at::Tensor part = out.narrow(1, column, size);
      at::addmm_out(part, *bias, x, weight->t());
      column += size;
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const std::int64_t size = saved[1].size(0);
    variable_list result(7);
    const bool has_factor = saved.size() > 7 && !c10::GradMode::is_enabled();
    if (x.requires_grad() && has_factor) {
      result[0] = at::mm(gradients[0], saved.size() == 8 ? saved[7] : at::cat({saved[7], saved[8], saved[9]}));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const at::Tensor &weight = saved[1 + 2 * i], &bias = saved[2 + 2 * i];
      const at::Tensor dy = gradients[0].narrow(1, static_cast<std::int64_t>(i) * size, size);
      if (x.requires_grad() && !has_factor) add_product(result[0], dy, weight.to(x.scalar_type()));
      if (weight.requires_grad()) result[1 + 2 * i] = weight_gradient(x, weight, dy, WeightLayout::OutIn);
      if (bias.requires_grad()) result[2 + 2 * i] = bias_gradient(bias, dy);
    }
    return result;
  }
};

template <typename T>
void add_rows(const at::Tensor& ids, const at::Tensor& rows, std::int64_t padding_idx, at::Tensor& table) {
  const std::int64_t* id = ids.data_ptr<std::int64_t>();
  const T* row = rows.data_ptr<T>();
  const std::int64_t size = table.size(1);
  for (std::int64_t i = 0; i < ids.numel(); ++i, row += size) {
    if (id[i] == padding_idx) continue;
    T* target = table.data_ptr<T>() + id[i] * size;
    for (std::int64_t j = 0; j < size; ++j) target[j] += row[j];
  }
}

class EmbedFunction : public torch::autograd::Function<EmbedFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight, const at::Tensor& ids,
                            std::int64_t padding_idx) {
    context->save_for_backward({weight, ids});
    context->saved_data["padding_idx"] = padding_idx;
    return at::embedding(weight, ids, padding_idx);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weight = saved[0], &ids = saved[1], &dy = gradients[0];
    const std::int64_t padding_idx = context->saved_data["padding_idx"].toInt();
    variable_list result(3);
    at::Tensor in_place = gradient_in_place(weight);
    if (!in_place.defined()) {
      result[0] = at::embedding_dense_backward(dy, ids, weight.size(0), padding_idx, false);
    } else if (weight.scalar_type() == at::kDouble) {
      add_rows<double>(ids.contiguous(), dy.contiguous(), padding_idx, in_place);
    } else {
      add_rows<float>(ids.contiguous(), dy.contiguous(), padding_idx, in_place);
    }
    return result;
  }
};

}  // namespace

std::optional<at::ScalarType> shortcut_type(const at::Tensor& x) {
  if (!x.device().is_cpu()) return std::nullopt;
  const at::ScalarType type = x.scalar_type();
  if (!is_autocast_on(c10::DeviceType::CPU)) {
    return type == at::kFloat || type == at::kDouble ? std::optional(type) : std::nullopt;
  }
  const bool is_bf16 = autocast_type(c10::DeviceType::CPU) == at::kBFloat16;
  return is_bf16 && (type == at::kFloat || type == at::kBFloat16) ? std::optional(at::kBFloat16) : std::nullopt;
}

at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout) {
  const std::optional<at::ScalarType> type = shortcut_type(x);
  if (!type || x.dim() != 2) return product(x, weight, bias, layout);
  const at::Tensor input = x.to(*type);
  const CopiesForGraphs copies;
  return bias.defined() ? DenseFunction::apply(input, weight, bias, layout)
                        : DenseFunction::apply(input, weight, layout);
}

at::Tensor dense_beside(const at::Tensor& x, const std::array<at::Tensor, 3>& weights,
                        const std::array<at::Tensor, 3>& biases) {
  const CopiesForGraphs copies;
  return DenseBesideFunction::apply(x.to(*shortcut_type(x)), weights[0], biases[0], weights[1], biases[1], weights[2],
                                    biases[2]);
}

at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids, std::int64_t padding_idx) {
  const bool has_shortcut = shortcut_type(weight).has_value() && weight.scalar_type() != at::kBFloat16;
  return has_shortcut ? EmbedFunction::apply(weight, ids, padding_idx) : at::embedding(weight, ids, padding_idx);
}

}  // namespace lockstep
