#include "lockstep/replicas/parallel_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

at::Tensor one_number(const at::Tensor& tensor, const char* name) {
  if (tensor.defined() && tensor.numel() == 1) return tensor.reshape({});
  const std::string shape = tensor.defined() ? fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ", ")) : "none";
  throw Error(fmt::format("the loss's {} is {}, not one number", name, shape), "parallel_loss",
              "return the sum of the samples' losses and their count");
}

}  // namespace

at::Tensor ReplicaLosses::mean() const { return sums_.sum().div(counts_.sum()); }
at::Tensor ReplicaLosses::sum() const { return sums_.sum(); }
at::Tensor ReplicaLosses::per_replica() const { return sums_.div(counts_); }

namespace detail {

LossSum checked_loss(const at::Tensor& sum, const at::Tensor& count) {
  return {one_number(sum, "sum"), one_number(count, "count")};
}

LossSum checked_loss_of_mean(const at::Tensor& mean, std::int64_t samples) {
  const at::Tensor number = one_number(mean, "mean");
  if (samples < 0) {
    throw Error("the loss is a mean, but no argument has a tensor whose samples could be counted", "parallel_loss",
                "return a struct with sum and count");
  }
  return {number.mul(samples), at::full({}, samples, number.options().dtype(at::kLong).requires_grad(false))};
}

// With one replica nothing was gathered, so the scalars become vectors here.
ReplicaLosses losses_of(const LossSum& gathered) { return {gathered.sum.reshape({-1}), gathered.count.reshape({-1})}; }

}  // namespace detail
}  // namespace lockstep
