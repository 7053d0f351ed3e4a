#include "lockstep/models/mlp.h"

#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/random_tensors.h"

namespace lockstep {

MlpImpl::MlpImpl(MlpOptions options) : Model("Mlp"), options_(std::move(options)) {
  std::vector<std::int64_t> widths{options_.features};
  widths.insert(widths.end(), options_.hidden.begin(), options_.hidden.end());
  widths.push_back(options_.classes);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] > 0) continue;
    throw Error(fmt::format("width {} of layer {} of {} is not positive", widths[i], i, widths.size()), "Mlp",
                "give features, hidden sizes and classes of at least 1");
  }
  for (std::size_t i = 1; i < widths.size(); ++i) {
    layers_.push_back(register_module(fmt::format("fc{}", i), torch::nn::Linear(widths[i - 1], widths[i])));
  }
}

at::Tensor MlpImpl::forward(const at::Tensor& features) {
  if (features.dim() != 2 || features.size(1) != options_.features) {
    throw Error(fmt::format("features have {} dimensions and {} columns, but the model takes [size, {}]",
                            features.dim(), features.dim() ? features.size(-1) : 0, options_.features),
                "Mlp, field \"features\"", "build the model with the number of columns that the data has");
  }
  at::Tensor x = features;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = at::relu(layers_[i]->forward(x));
  return layers_.back()->forward(x);
}

std::vector<InputField> MlpImpl::inputs() const {
  return {{"features", at::kFloat, {-1, options_.features}}, {"labels", at::kLong, {-1}}};
}

Batch MlpImpl::random_batch(const RandomBatchOptions& options) const {
  RandomTensors random(options, "Mlp");
  return {{"features", random.normal({options.size, options_.features})},
          {"labels", random.integers({options.size}, options_.classes)}};
}

at::Tensor MlpImpl::forward_batch(const Batch& batch) { return forward(field(batch, "features")); }

LossSum MlpImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return cross_entropy_sum(output, field(batch, "labels"), "Mlp");
}

}  // namespace lockstep
