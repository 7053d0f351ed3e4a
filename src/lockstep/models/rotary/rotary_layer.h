#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/models/key_value_cache.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/rotary/rms_norm.h"
#include "lockstep/models/rotary/rope.h"
#include "lockstep/models/rotary/rotary_layout.h"

namespace lockstep {

/// What all layers of a forward pass share.
struct RotaryPass {
  std::int64_t size = 0;    ///< texts in the batch
  std::int64_t length = 0;  ///< tokens in each text, padding included
  at::Tensor mask;          ///< additive, [size, 1, 1, length], or undefined
  RotaryAngles rotation;
};

/// One layer: attention to the tokens before, then a gated feed-forward layer; each normalises its input first and adds
/// its result to it.
class RotaryLayer : public torch::nn::Module {
 public:
  /// @param index  number of the layer, from 0
  RotaryLayer(const RotarySettings& settings, const RotaryLayout& layout, std::size_t index);
  /// @param x  [size * length, hidden_size]
  /// @param cache  of this layer, to which the tokens are added; null: there are no others
  at::Tensor forward(const at::Tensor& x, const RotaryPass& pass, KeyValueCache::Layer* cache) const;

 private:
  at::Tensor attend(const at::Tensor& x, const RotaryPass& pass, KeyValueCache::Layer* cache) const;

  std::int64_t head_size_;
  double dropout_;
  bool rotates_;
  std::optional<std::int64_t> window_;
  Activation activation_;
  std::shared_ptr<RmsNorm> norm_1_;
  std::shared_ptr<Dense> query_;
  std::shared_ptr<Dense> key_;
  std::shared_ptr<Dense> value_;
  std::shared_ptr<RmsNorm> query_norm_;  // null if heads are not normalised
  std::shared_ptr<RmsNorm> key_norm_;
  std::shared_ptr<Dense> attention_output_;
  std::shared_ptr<RmsNorm> norm_2_;
  std::shared_ptr<Dense> gate_;
  std::shared_ptr<Dense> up_;
  std::shared_ptr<Dense> down_;
};

}  // namespace lockstep
