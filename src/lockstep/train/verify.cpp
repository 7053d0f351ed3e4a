#include "lockstep/train/verify.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"

namespace lockstep {
namespace {

// Some gradients are zero except for rounding: softmax cancels the bias of attention's keys, and the remainder depends
// on the order of additions. So a tensor counts as at least this share of the model's largest.
constexpr double kSmallestShare = 1e-3;

// What a replica has at the end, for each parameter.
struct VerifyResult {
  std::string name;
  at::Tensor gradient;  // zeros if there is none
  at::Tensor parameter;
};

double largest_element(const at::Tensor& tensor) { return tensor.numel() > 0 ? tensor.abs().max().item<double>() : 0; }

// Relative to the tensor's largest element, or to `floor` if that is larger.
double relative_difference(const at::Tensor& got, const at::Tensor& want, double floor) {
  if (got.numel() == 0) return 0;
  const double difference = (got - want).abs().max().item<double>();
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / std::max({largest_element(want), floor, 1e-30});
}

at::Tensor dense(const at::Tensor& gradient) { return gradient.is_sparse() ? gradient.to_dense() : gradient; }

std::int64_t rows_of(const Batch& batch, int ranks) {
  if (batch.empty()) throw Error("the batch has no tensors", "verify", "give the tensors that the loss reads");
  const std::int64_t rows = batch.begin()->second.dim() > 0 ? batch.begin()->second.size(0) : 0;
  for (const auto& [name, tensor] : batch) {
    if (tensor.dim() > 0 && tensor.size(0) == rows) continue;
    throw Error(fmt::format("\"{}\" has the shape [{}], and \"{}\" has {} rows", name, fmt::join(tensor.sizes(), ", "),
                            batch.begin()->first, rows),
                "verify", "give tensors with one row for each sample");
  }
  if (rows >= ranks) return rows;
  throw Error(fmt::format("{} samples cannot be cut into {} parts", rows, ranks), "verify",
              "give at least one sample for each rank");
}

Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  Batch part;
  for (const auto& [name, tensor] : batch) part[name] = tensor.slice(0, begin, end);
  return part;
}

// Trains one rank on its share of each batch.
std::vector<VerifyResult> train_share(const std::shared_ptr<Communicator>& group,
                                      const detail::VerifiedReplica& replica, const std::vector<Batch>& batches,
                                      double learning_rate) {
  for (const Batch& batch : batches) {
    const std::int64_t rows = rows_of(batch, group->world_size());
    const Batch part =
        part_of(batch, rows * group->rank() / group->world_size(), rows * (group->rank() + 1) / group->world_size());
    for (const NamedTensor& parameter : replica.tensors.parameters) parameter.tensor.mutable_grad() = at::Tensor();
    const LossSum loss = replica.loss(part);
    at::Tensor count = loss.count.to(at::kDouble).reshape({1}).clone();
    group->all_reduce(count);
    // DDP divides by the number of ranks; the formula divides by the count over all ranks.
    (loss.sum * (group->world_size() / count.item<double>())).backward();
    const at::NoGradGuard no_grad;
    for (const NamedTensor& parameter : replica.tensors.parameters) {
      at::Tensor tensor = parameter.tensor;
      if (tensor.grad().defined()) tensor.sub_(dense(tensor.grad()) * learning_rate);
    }
  }
  std::vector<VerifyResult> outcomes;
  for (const NamedTensor& parameter : replica.tensors.parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    outcomes.push_back({parameter.name, gradient.defined() ? dense(gradient).clone() : at::zeros_like(parameter.tensor),
                        parameter.tensor.detach().clone()});
  }
  return outcomes;
}

std::vector<VerifiedTensor> compared(const std::vector<VerifyResult>& got, const std::vector<VerifyResult>& want) {
  double gradient_floor = 0;
  double parameter_floor = 0;
  for (const VerifyResult& each : want) {
    gradient_floor = std::max(gradient_floor, kSmallestShare * largest_element(each.gradient));
    parameter_floor = std::max(parameter_floor, kSmallestShare * largest_element(each.parameter));
  }
  std::vector<VerifiedTensor> tensors;
  for (std::size_t i = 0; i < want.size(); ++i) {
    tensors.push_back({want[i].name, fmt::format("[{}]", fmt::join(want[i].parameter.sizes(), ", ")),
                       relative_difference(got[i].gradient, want[i].gradient, gradient_floor),
                       relative_difference(got[i].parameter, want[i].parameter, parameter_floor)});
  }
  return tensors;
}

}  // namespace

LossSum detail::loss_sum_of(const at::Tensor& mean, const Batch& part) {
  if (mean.numel() != 1) {
    throw Error(fmt::format("the loss has the shape [{}]", fmt::join(mean.sizes(), ", ")), "verify",
                "return the mean over the rows as one number, or a LossSum");
  }
  const std::int64_t rows = part.begin()->second.size(0);
  return {mean.reshape({}) * rows, at::scalar_tensor(rows, at::kLong)};
}

void detail::own_memory(const ModuleTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& each : tensors.parameters) each.tensor.set_data(each.tensor.detach().clone());
  for (const NamedTensor& each : tensors.buffers()) each.tensor.set_data(each.tensor.detach().clone());
}

Verification detail::verify_replicas(const MakeVerifiedReplica& make, const std::vector<Batch>& batches,
                                     const VerifyOptions& options) {
  for (const Batch& batch : batches) rows_of(batch, options.ranks);
  const auto run = [&](int ranks) {
    std::vector<VerifyResult> outcomes;
    const auto body = [&](const std::shared_ptr<Communicator>& group) {
      const VerifiedReplica replica = make(group);
      const std::vector<VerifyResult> mine = train_share(group, replica, batches, options.learning_rate);
      if (group->rank() == 0) outcomes = mine;
      group->barrier();
    };
    SpawnOptions spawning;
    spawning.engine = options.engine;
    spawn_threads(ranks, body, spawning);
    return outcomes;
  };
  const std::vector<VerifyResult> whole = run(1);
  Verification result;
  result.tolerance = options.tolerance;
  result.tensors = compared(run(options.ranks), whole);
  for (const VerifiedTensor& tensor : result.tensors) {
    result.gradient = std::max(result.gradient, tensor.gradient);
    result.parameter = std::max(result.parameter, tensor.parameter);
  }
  return result;
}

std::string Verification::text() const {
  std::size_t width = 9;
  for (const VerifiedTensor& tensor : tensors) width = std::max(width, tensor.name.size());
  std::string table = fmt::format("{:<{}}  {:<16}  {:>9}  {:>9}\n", "parameter", width, "shape", "gradient", "updated");
  for (const VerifiedTensor& tensor : tensors) {
    table += fmt::format("{:<{}}  {:<16}  {:>9.1e}  {:>9.1e}\n", tensor.name, width, tensor.shape, tensor.gradient,
                         tensor.parameter);
  }
  return table +
         fmt::format("\nlargest relative difference: {:.1e} in gradients, {:.1e} in parameters; tolerance {:.0e}: {}\n",
                     gradient, parameter, tolerance, is_equal() ? "equal" : "NOT EQUAL");
}

}  // namespace lockstep
