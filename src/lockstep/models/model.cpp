#include "lockstep/models/model.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lockstep/models/layers/layers.h"
#include "lockstep/models/loss.h"

namespace lockstep {
namespace {

void copy_state(const torch::nn::Module& from, torch::nn::Module& to, const OptionalDevice& device) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const auto& sources, auto targets) {
    for (const auto& source : sources) {
      at::Tensor& target = targets[source.key()];
      const at::Tensor& value = source.value();
      target.set_data(value.detach().to(device ? *device : value.device(), value.scalar_type(), false, /*copy=*/true));
      target.set_requires_grad(value.requires_grad());
    }
  };
  copy(from.named_parameters(), to.named_parameters());
  copy(from.named_buffers(), to.named_buffers());
  to.train(from.is_training());
}

}  // namespace

std::shared_ptr<torch::nn::Module> Model::clone(const OptionalDevice& device) const {
  const std::shared_ptr<Model> copy = make_alike();
  copy_state(*this, *copy, device);
  return copy;
}

void Model::clone_(torch::nn::Module& other, const OptionalDevice& device) { copy_state(other, *this, device); }

LossSum Model::smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const {
  return cross_entropy_sum(output.flatten(0, -2), field(batch, "labels").flatten(), name(), factor);
}

double Model::floating_point_ops(const Batch& batch) const {
  const auto ids = batch.find("input_ids");
  if (input_kind() != InputKind::Text || ids == batch.end()) return 0;
  std::int64_t numbers = 0;
  for (const at::Tensor& parameter : parameters()) numbers += parameter.numel();
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* embedding = dynamic_cast<const Embedding*>(module.get())) numbers -= embedding->weight().numel();
  }
  return 6.0 * static_cast<double>(ids->second.numel()) * static_cast<double>(numbers);
}

const at::Tensor& Model::field(const Batch& batch, const std::string& name) const {
  return batch_field(batch, name, "model " + this->name());
}

}  // namespace lockstep
