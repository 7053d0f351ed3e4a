#include "lockstep/parallel/deferred/deferred_weight.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>

#include "lockstep/base/error.h"
#include "lockstep/base/files/mapped_file.h"
#include "lockstep/parallel/agreement/tensor_digest.h"

namespace lockstep {

DeferredWeight::DeferredWeight(const at::Tensor& parameter)
    : sizes_(parameter.sizes().vec()),
      strides_(parameter.strides().vec()),
      options_(parameter.options().requires_grad(false)) {}

bool DeferredWeight::reads(const c10::StorageImpl* storage) const {
  for (const DeferredWrite& write : writes_) {
    for (const auto& [source, version] : write.sources) {
      if (source.storage().unsafeGetStorageImpl() == storage) return true;
    }
  }
  return false;
}

bool DeferredWeight::has_layout_of(const at::Tensor& parameter) const {
  return parameter.sizes() == sizes_ && parameter.strides() == strides_ &&
         parameter.scalar_type() == c10::typeMetaToScalarType(options_.dtype());
}

at::Tensor DeferredWeight::make() {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView untracked;
  at::Tensor weight = at::empty_strided(sizes_, strides_, options_);
  bool reads_tensors = false;
  for (const DeferredWrite& write : writes_) {
    reads_tensors = reads_tensors || !write.sources.empty();
    for (const auto& [source, version] : write.sources) {
      if (source.unsafeGetTensorImpl()->version_counter().current_version() == version) continue;
      throw Error("a deferred weight was to be written from a tensor that has changed since", "deferred",
                  "give each weight a tensor of its own to read, or build the model without deferred()");
    }
    torch::jit::Stack stack{weight.as_strided(write.sizes, write.strides, write.offset)};
    stack.insert(stack.end(), write.arguments.begin(), write.arguments.end());
    if (write.generator_place) stack[*write.generator_place] = write.generator.clone();
    write.operation.callBoxed(stack);
  }
  // Whoever noted that a file is to be read has asked then whether it was whole. What is missing reads as zeros.
  if (reads_tensors) MappedFile::require_all_whole();
  digest_ = tensor_digest(weight);
  return weight;
}

std::string DeferredWeight::text() const {
  std::string text;
  for (const DeferredWrite& write : writes_) {
    text += (text.empty() ? "" : ", ") + write.operation.schema().name();
  }
  return text;
}

std::vector<at::Tensor> DeferredWeight::generator_states() const {
  std::vector<at::Tensor> states;
  for (const DeferredWrite& write : writes_) {
    if (write.generator_place) states.push_back(write.generator.get_state());
  }
  return states;
}

void DeferredWeight::set_generator_states(const std::vector<at::Tensor>& states) {
  auto next = states.begin();
  for (DeferredWrite& write : writes_) {
    if (write.generator_place) write.generator.set_state(*next++);
  }
}

}  // namespace lockstep
