#include "lockstep/models/bert/bert_layer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>

#include "lockstep/models/layers/activation_checkpoint.h"
#include "lockstep/models/layers/attention_function.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/layers/relative_buckets.h"
#include "lockstep/models/layers/token_rows.h"

namespace lockstep {
namespace {

at::Tensor first_rows(const AttentionOptions& options, at::Device device) {
  std::vector<std::int64_t> rows;
  for (std::int64_t text = 0; text < options.size; ++text) rows.push_back(options.first_row(text));
  return at::tensor(rows, at::kLong).to(device);
}

}  // namespace

BertLayer::BertLayer(const BertConfig& c, const BertLayerNames& names)
    : activation_(c.hidden_act), dropout_(c.hidden_dropout_prob) {
  const auto dense = [&](const char* path, std::int64_t in, std::int64_t out) {
    return add_at(*this, path, std::make_shared<Dense>(in, out));
  };
  const auto norm = [&](const char* path) {
    return add_at(*this, path, std::make_shared<Norm>(c.hidden_size, c.layer_norm_eps));
  };
  query_ = dense(names.query, c.hidden_size, c.hidden_size);
  key_ = dense(names.key, c.hidden_size, c.hidden_size);
  value_ = dense(names.value, c.hidden_size, c.hidden_size);
  attention_dense_ = dense(names.attention_dense, c.hidden_size, c.hidden_size);
  attention_norm_ = norm(names.attention_norm);
  intermediate_ = dense(names.intermediate, c.hidden_size, c.intermediate_size);
  output_dense_ = dense(names.output_dense, c.intermediate_size, c.hidden_size);
  output_norm_ = norm(names.output_norm);
}

at::Tensor BertLayer::attend(const at::Tensor& x, const AttentionOptions& options) const {
  if (!shortcut_type(x)) return attention(query_->forward(x), key_->forward(x), value_->forward(x), options);
  return attention(dense_beside(x, {query_->weight(), key_->weight(), value_->weight()},
                                {query_->bias(), key_->bias(), value_->bias()}),
                   options);
}

at::Tensor BertLayer::after_attention(const at::Tensor& context, const at::Tensor& x) const {
  const at::Tensor projected = attention_dense_->forward(context);
  const at::Tensor attended = attention_norm_->forward(add_dropout(projected, x, dropout_, is_training()));
  const at::Tensor inner = activate(activation_, intermediate_->forward(attended));
  return output_norm_->forward(add_dropout(output_dense_->forward(inner), attended, dropout_, is_training()));
}

at::Tensor BertLayer::forward(const at::Tensor& x, const AttentionOptions& options) const {
  return after_attention(attend(x, options), x);
}

at::Tensor BertLayer::forward_first(const at::Tensor& x, const AttentionOptions& options) const {
  const at::Tensor first = x.index_select(0, first_rows(options, x.device()));
  return after_attention(first_token_attention(query_->forward(first), key_->forward(x), value_->forward(x), options),
                         first);
}

BertEncoder::BertEncoder(const BertConfig& c, const BertLayerNames& names, bool has_relative_bias)
    : heads_(c.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(c.hidden_size / c.num_attention_heads))),
      dropout_(c.attention_probs_dropout_prob),
      is_checkpointed_(c.gradient_checkpointing) {
  const auto scope = register_module("layer", std::make_shared<Scope>());
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    layers_.push_back(scope->add(std::to_string(i), std::make_shared<BertLayer>(c, names)));
  }
  if (!has_relative_bias) return;
  distances_ = register_module("relative_attention_bias", std::make_shared<Embedding>(kRelativeBuckets, heads_));
}

at::Tensor BertEncoder::relative_bias(const at::Tensor& buckets) const {
  return distances_->forward(buckets).permute({2, 0, 1}).unsqueeze(0);
}

// The functions that take texts of any lengths run on a CPU and take no bias.
bool BertEncoder::skips_rows(const at::Tensor& x) const { return !distances_ && shortcut_type(x).has_value(); }

at::Tensor BertEncoder::forward(const at::Tensor& embedded, const TokenInputs& inputs, HiddenRows rows) const {
  AttentionOptions options;
  options.size = inputs.input_ids.size(0);
  options.length = inputs.input_ids.size(1);
  const bool may_skip = rows != HiddenRows::All && skips_rows(embedded);
  const std::optional<TokenRows> tokens = may_skip ? rows_of_tokens(inputs.attention_mask) : std::nullopt;
  if (tokens) {
    options.starts = tokens->starts;
  } else {
    options.mask = additive_mask(inputs.attention_mask, layers_.front()->type_of_weights());
  }
  const bool first_only = may_skip && rows == HiddenRows::First && !options.mask.defined();
  at::Tensor hidden = through_layers(tokens ? embedded.index_select(0, tokens->places) : embedded, options, first_only);
  if (tokens && !first_only) {
    hidden = at::zeros({embedded.size(0), hidden.size(1)}, hidden.options()).index_copy(0, tokens->places, hidden);
  }
  return hidden.view({options.size, first_only ? 1 : options.length, hidden.size(1)});
}

at::Tensor BertEncoder::through_layers(const at::Tensor& x, AttentionOptions options, bool first_only) const {
  options.heads = heads_;
  options.scale = scale_;
  options.dropout_p = is_training() ? dropout_ : 0;
  const bool recomputes = is_checkpointed_ && is_training();
  const at::Tensor buckets = distances_ ? relative_buckets(options.length, x.device()) : at::Tensor();
  if (distances_ && !recomputes) options.bias = relative_bias(buckets);
  at::Tensor hidden = x;
  for (const std::shared_ptr<BertLayer>& layer : layers_) {
    const bool only_first = first_only && layer == layers_.back();
    const auto run = [layer, only_first](const at::Tensor& in, const AttentionOptions& with) {
      return only_first ? layer->forward_first(in, with) : layer->forward(in, with);
    };
    if (!recomputes) {
      hidden = run(hidden, options);
      continue;
    }
    const auto again = [this, run, options, buckets](const at::Tensor& in) {
      AttentionOptions own = options;  // a bias of each layer, because each layer's backward is a graph of its own
      if (distances_) own.bias = relative_bias(buckets);
      return run(in, own);
    };
    hidden = checkpoint_activations(again, hidden);
  }
  return hidden;
}

}  // namespace lockstep
