#include "lockstep/train/trainable_model.h"

#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"

namespace lockstep {
namespace {

bool is_norm_part(const std::string& part) {
  const auto ends_with = [&](const std::string& end) {
    return part.size() >= end.size() && part.compare(part.size() - end.size(), end.size(), end) == 0;
  };
  return part == "norm" || ends_with("_norm") || part == "ln_1" || part == "ln_2" || part == "ln_f";
}

}  // namespace

bool is_decayed_name(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* sign : {"bias", "layernorm", "rmsnorm"}) {
    if (lower.find(sign) != std::string::npos) return false;
  }
  std::size_t begin = 0;
  while (begin <= lower.size()) {
    const std::size_t end = std::min(lower.find('.', begin), lower.size());
    if (is_norm_part(lower.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

bool is_decayed_parameter(const torch::nn::Module& module, const std::string& name) {
  if (!is_decayed_name(name)) return false;
  const std::size_t point = name.rfind('.');
  if (point == std::string::npos) return true;
  for (const auto& each : module.named_modules("", /*include_self=*/false)) {
    if (each.key() == name.substr(0, point)) return !each.value()->as<torch::nn::LayerNorm>();
  }
  return true;
}

bool TrainableModel::is_decayed(const std::string& name) const { return is_decayed_name(name); }

at::Tensor TrainableModel::forward_on(torch::nn::Module&, const Batch&) {
  throw Error("this kind of model cannot be copied to replicas", "DataParallel",
              "use DistributedDataParallel (lockstep run), or one replica");
}

LossSum smoothed_cross_entropy(const at::Tensor& scores, const at::Tensor& labels, double factor) {
  if (scores.dim() != labels.dim() + 1 || labels.scalar_type() != at::kLong) {
    throw Error("labels of " + std::to_string(labels.dim()) + " dimensions do not fit scores of " +
                    std::to_string(scores.dim()),
                "cross entropy", "give one int64 class number for each row of scores");
  }
  const at::Tensor sum =
      at::cross_entropy_loss(scores.flatten(0, -2), labels.flatten(), {}, at::Reduction::Sum, kIgnoredLabel, factor);
  return {sum, labels.ne(kIgnoredLabel).sum()};
}

LossSum TrainableModel::smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const {
  return smoothed_cross_entropy(output, batch_field(batch, "labels", "label smoothing"), factor);
}

NamedTensors weights_of(TrainableModel& model) {
  const ModuleTensors tensors = model.tensors();
  NamedTensors weights;
  for (const NamedTensor& parameter : tensors.parameters) weights.emplace_back(parameter.name, parameter.tensor);
  for (const NamedTensor& buffer : tensors.buffers()) weights.emplace_back(buffer.name, buffer.tensor);
  return weights;
}

}  // namespace lockstep
