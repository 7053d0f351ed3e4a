#include "lockstep/replicas/gather.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  return tensor.defined() ? fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ", ")) : "none";
}

bool fits_beside(const at::Tensor& a, const at::Tensor& b, std::int64_t dim) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.dim() != b.dim()) return false;
  const std::int64_t along = dim < 0 ? dim + a.dim() : dim;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (d != along && a.size(d) != b.size(d)) return false;
  }
  return true;
}

}  // namespace

at::Tensor gather_tensors(const std::vector<at::Tensor>& outputs, const ReplicaDevice& device, std::int64_t dim) {
  if (outputs.empty()) throw Error("there are no outputs to gather", "gather", "give the output of each replica");
  const at::Tensor& first = outputs.front();
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (fits_beside(first, outputs[i], dim)) continue;
    throw Error(fmt::format("output {} of replica {} does not fit {} of replica 0", shape_text(outputs[i]), i,
                            shape_text(first)),
                fmt::format("gather along dimension {}", dim),
                "let all replicas return tensors that differ only in that size");
  }
  if (!first.defined()) return first;
  std::vector<at::Tensor> here;
  for (const at::Tensor& output : outputs) {
    here.push_back(output.device() == device.tensor_device() ? output : output.to(device.tensor_device()));
  }
  if (first.dim() == 0) return at::stack(here, 0);
  if (dim < -first.dim() || dim >= first.dim()) {
    throw Error(fmt::format("an output {} has no dimension {}", shape_text(first), dim), "gather",
                "choose another dim");
  }
  return here.size() == 1 ? here.front() : at::cat(here, dim);
}

namespace detail {

std::vector<at::Tensor> gather_all(const std::vector<std::vector<at::Tensor>>& outputs, const ReplicaDevice& device,
                                   std::int64_t dim) {
  if (outputs.empty()) throw Error("there are no outputs to gather", "gather", "give the output of each replica");
  std::vector<at::Tensor> gathered;
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i].size() == outputs[0].size()) continue;
    throw Error(fmt::format("replica {} returned {} tensors, but replica 0 returned {}", i, outputs[i].size(),
                            outputs[0].size()),
                "gather", "let every replica return the same structure");
  }
  for (std::size_t position = 0; position < outputs[0].size(); ++position) {
    std::vector<at::Tensor> parts;
    for (const auto& output : outputs) parts.push_back(output[position]);
    gathered.push_back(gather_tensors(parts, device, dim));
  }
  return gathered;
}

void refuse_unlike_keys(std::size_t replica) {
  throw Error(fmt::format("replica {} returned a map with other keys than replica 0", replica), "gather",
              "All dicts must have the same keys: let every replica return the same structure");
}

void refuse_unlike_sizes(std::size_t replica, std::size_t size, std::size_t first) {
  throw Error(fmt::format("replica {} returned a list of {}, but replica 0 one of {}", replica, size, first), "gather",
              "let every replica return the same structure");
}

void append_script_tensors(const c10::IValue& first, const c10::IValue& other, std::size_t replica,
                           std::vector<at::Tensor>& tensors) {
  if (first.isTuple() && other.isTuple()) {
    const auto& a = first.toTupleRef().elements();
    const auto& b = other.toTupleRef().elements();
    if (a.size() != b.size()) refuse_unlike_sizes(replica, b.size(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) append_script_tensors(a[i], b[i], replica, tensors);
  } else if (first.isList() && other.isList()) {
    const auto a = first.toList();
    const auto b = other.toList();
    if (a.size() != b.size()) refuse_unlike_sizes(replica, b.size(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) append_script_tensors(a.get(i), b.get(i), replica, tensors);
  } else if (first.isGenericDict() && other.isGenericDict()) {
    const auto a = first.toGenericDict();
    const auto b = other.toGenericDict();
    if (a.size() != b.size()) refuse_unlike_keys(replica);
    for (const auto& entry : a) {
      const auto found = b.find(entry.key());
      if (found == b.end()) refuse_unlike_keys(replica);
      append_script_tensors(entry.value(), found->value(), replica, tensors);
    }
  } else {
    visit_tensors(other, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
}

}  // namespace detail
}  // namespace lockstep
