#include "lockstep/parallel/parallel_loss.h"

#include <ATen/TensorOperators.h>
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

SumAndCount checked_loss(const at::Tensor& sum, const at::Tensor& count) {
  return {one_number(sum, "sum"), one_number(count, "count")};
}

// With one replica nothing was gathered: the scalars are made vectors here.
ReplicaLosses losses_of(SumAndCount gathered) { return {gathered.sum.reshape({-1}), gathered.count.reshape({-1})}; }

}  // namespace detail
}  // namespace lockstep
