#include "lockstep/data/batch.h"

#include <ATen/ops/stack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string names_of(const Example& example) {
  std::vector<std::string> names;
  for (const auto& field : example) names.push_back(field.first);
  return fmt::format("{{{}}}", fmt::join(names, ", "));
}

std::string describe_tensor(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

// The tensors called `name` of all samples, checked to have equal shapes and dtypes.
std::vector<at::Tensor> column(const std::vector<Example>& examples, const std::string& name) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto found = examples[i].find(name);
    if (found == examples[i].end() || examples[i].size() != examples[0].size()) {
      throw Error(fmt::format("samples of one batch have different fields: {} and {}", names_of(examples[0]),
                              names_of(examples[i])),
                  fmt::format("samples 0 and {} of the batch", i), "give every sample of a dataset the same fields");
    }
    const at::Tensor& tensor = found->second;
    if (!tensor.defined()) {
      throw Error("the field \"" + name + "\" holds no tensor", fmt::format("sample {} of the batch", i),
                  "leave the field out, or give it a tensor");
    }
    if (i > 0 && (tensor.sizes() != tensors[0].sizes() || tensor.scalar_type() != tensors[0].scalar_type())) {
      throw Error(fmt::format("field \"{}\" cannot be stacked: {} and {}", name, describe_tensor(tensors[0]),
                              describe_tensor(tensor)),
                  fmt::format("samples 0 and {} of the batch", i),
                  "give the loader a collate function that pads, or give all samples the same shape");
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace

Batch stack_examples(const std::vector<Example>& examples) {
  if (examples.empty())
    throw Error("there are no samples to stack", "stack_examples", "ask for a batch of at least one sample");
  Batch batch;
  for (const auto& field : examples[0]) batch[field.first] = at::stack(column(examples, field.first));
  return batch;
}

std::int64_t batch_size(const Batch& batch) {
  const Batch::value_type* first = nullptr;
  for (const auto& field : batch) {
    if (!field.second.defined() || field.second.dim() == 0) {
      throw Error("the field \"" + field.first + "\" of a batch has no batch dimension", "batch_size",
                  "give every tensor of a batch the samples as its first dimension");
    }
    if (first == nullptr) first = &field;
    if (field.second.size(0) != first->second.size(0)) {
      throw Error(fmt::format("fields of one batch differ in size: \"{}\" has {} samples, but \"{}\" has {}",
                              first->first, first->second.size(0), field.first, field.second.size(0)),
                  "batch_size", "give every tensor of a batch the samples as its first dimension");
    }
  }
  return first == nullptr ? 0 : first->second.size(0);
}

}  // namespace lockstep
