#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/detail/models/bert_config.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// What a layer's parts are called, as paths below it.
struct BertLayerNames {
  const char* query;
  const char* key;
  const char* value;
  const char* attention_dense;
  const char* attention_norm;
  const char* intermediate;
  const char* output_dense;
  const char* output_norm;
};

constexpr BertLayerNames kBertLayerNames{
    "attention.self.query",       "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense",         "output.LayerNorm"};

/// One transformer layer: attention over the text, then a feed-forward layer, each followed by dropout, the addition of
/// its input, and a norm.
class BertLayer : public torch::nn::Module {
 public:
  BertLayer(const BertConfig& config, const BertLayerNames& names);
  /// @param x  [rows, hidden_size]; see AttentionOptions for how many rows a text has
  at::Tensor forward(const at::Tensor& x, const AttentionOptions& options) const;
  /// As `forward`, for the first token of each text alone. Without masks and bias, on a CPU.
  /// @return  [size, hidden_size]
  at::Tensor forward_first(const at::Tensor& x, const AttentionOptions& options) const;
  at::ScalarType type_of_weights() const { return query_->weight().scalar_type(); }

 private:
  at::Tensor attend(const at::Tensor& x, const AttentionOptions& options) const;
  at::Tensor after_attention(const at::Tensor& context, const at::Tensor& x) const;

  Activation activation_;
  double dropout_;
  std::shared_ptr<Dense> query_;
  std::shared_ptr<Dense> key_;
  std::shared_ptr<Dense> value_;
  std::shared_ptr<Dense> attention_dense_;
  std::shared_ptr<Norm> attention_norm_;
  std::shared_ptr<Dense> intermediate_;
  std::shared_ptr<Dense> output_dense_;
  std::shared_ptr<Norm> output_norm_;
};

/// The stack of layers.
class BertEncoder : public torch::nn::Module {
 public:
  /// @param has_relative_bias  attention adds a learned number for each head and distance (see relative_buckets)
  explicit BertEncoder(const BertConfig& config, const BertLayerNames& names = kBertLayerNames,
                       bool has_relative_bias = false);
  /// @param embedded  [size * length, hidden_size]
  /// @return  [size, length, hidden_size], or [size, 1, hidden_size] if the rows of first tokens are computed alone
  at::Tensor forward(const at::Tensor& embedded, const TokenInputs& inputs, HiddenRows rows) const;

 private:
  bool skips_rows(const at::Tensor& x) const;
  at::Tensor through_layers(const at::Tensor& x, AttentionOptions options, bool first_only) const;
  at::Tensor relative_bias(const at::Tensor& buckets) const;

  std::int64_t heads_;
  double scale_;
  double dropout_;
  bool is_checkpointed_;
  std::vector<std::shared_ptr<BertLayer>> layers_;
  std::shared_ptr<Embedding> distances_;  // null without relative bias
};

}  // namespace lockstep
