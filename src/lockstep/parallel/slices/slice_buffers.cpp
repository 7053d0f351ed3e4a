#include "lockstep/parallel/slices/slice_buffers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/slices/term_exchange.h"
#include "lockstep/parallel/slices/update_difference.h"

namespace lockstep {
namespace {

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& each : tensors) copies.push_back(each.detach().clone());
  return copies;
}

// Leaves the version counter of a buffer that has these values as it is.
void give_values(const at::Tensor& buffer, const at::Tensor& values) {
  if (!buffer.equal(values)) buffer.copy_(values);
}

void give_values(const std::vector<at::Tensor>& buffers, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < buffers.size(); ++i) give_values(buffers[i], values[i]);
}

void check_type(const NamedTensor& buffer, const Communicator& communicator) {
  const at::ScalarType type = buffer.tensor.scalar_type();
  if (type != at::kDouble && !c10::isComplexType(type) && !c10::isQIntType(type)) return;
  throw Error(fmt::format("buffer \"{}\" is of type {}, whose mean over shards would not keep its bits", buffer.name,
                          c10::toString(type)),
              communicator.membership().where() + ", virtual_shards",
              "convert it to fp32, or leave virtual_shards out");
}

}  // namespace

SliceBuffers::SliceBuffers(const SlicePlan& plan, Communicator& communicator,
                           std::function<std::vector<NamedTensor>()> buffers)
    : plan_(plan), communicator_(communicator), read_(std::move(buffers)), sums_(plan.tree()) {
  for (const NamedTensor& buffer : read_()) check_type(buffer, communicator);
}

void SliceBuffers::start_over() {
  floats_.clear();
  integers_.clear();
  for (const NamedTensor& buffer : read_()) {
    check_type(buffer, communicator_);
    (c10::isFloatingType(buffer.tensor.scalar_type()) ? floats_ : integers_).push_back(buffer.tensor.detach());
  }
  floats_before_ = copies_of(floats_);
  integers_before_ = copies_of(integers_);
  largest_ = copies_of(integers_);
  sums_ = TermSums(plan_.tree());
}

void SliceBuffers::restore() {
  give_values(floats_, floats_before_);
  give_values(integers_, integers_before_);
}

// In fp64, in which sums of up to 2^29 equal numbers of fp32, and their mean, are exact: constants stay as they are.
at::Tensor SliceBuffers::row(bool had_forward) const {
  const auto doubles = at::TensorOptions().dtype(at::kDouble);
  std::vector<at::Tensor> parts = {at::full({1}, had_forward ? 1.0 : 0.0, doubles)};
  for (const at::Tensor& buffer : floats_) {
    parts.push_back(had_forward ? buffer.flatten().to(at::kDouble) : at::zeros({buffer.numel()}, doubles));
  }
  return at::cat(parts);
}

void SliceBuffers::add_slice(std::int64_t slice, bool had_forward) {
  const at::NoGradGuard no_grad;
  sums_.add({slice, slice + 1}, row(had_forward));
  for (std::size_t i = 0; i < integers_.size(); ++i) {
    if (integers_[i].scalar_type() == at::kBool) {
      largest_[i].logical_or_(integers_[i]);
    } else {
      largest_[i] = at::maximum(largest_[i], integers_[i]);
    }
  }
}

// The integers' largest values on any rank, one after the other. The update's number travels in front of them.
at::Tensor SliceBuffers::largest_of_ranks(std::uint64_t update) {
  const auto number = static_cast<std::int64_t>(update);
  std::vector<at::Tensor> parts = {at::tensor({number, ~number}, at::TensorOptions().dtype(at::kLong))};
  for (const at::Tensor& each : largest_) parts.push_back(each.flatten().to(at::kLong));
  const at::Tensor all = at::cat(parts);
  communicator_.all_reduce(all, ReduceOp::Max);
  if (all[0].item<std::int64_t>() != ~all[1].item<std::int64_t>()) {
    restore();
    throw_different_updates(communicator_, update);
  }
  return all.narrow(0, 2, all.numel() - 2);
}

void SliceBuffers::finish(std::uint64_t update) {
  const at::NoGradGuard no_grad;
  const at::Tensor all = largest_of_ranks(update);
  if (!floats_.empty()) write(sum_of_terms(plan_, sums_.terms(), communicator_));
  std::int64_t begin = 0;
  for (const at::Tensor& buffer : integers_) {
    const at::Tensor values = all.narrow(0, begin, buffer.numel()).view(buffer.sizes()).to(buffer.scalar_type());
    give_values(buffer, values);
    begin += buffer.numel();
  }
}

// @param sums  the number of slices with a forward, and the sum of each element
void SliceBuffers::write(const at::Tensor& sums) {
  const double slices = sums[0].item<double>();
  if (slices == 0) return;
  std::int64_t begin = 1;
  for (const at::Tensor& buffer : floats_) {
    const at::Tensor mean = sums.narrow(0, begin, buffer.numel()).div(slices);
    give_values(buffer, mean.view(buffer.sizes()).to(buffer.scalar_type()));
    begin += buffer.numel();
  }
}

}  // namespace lockstep
