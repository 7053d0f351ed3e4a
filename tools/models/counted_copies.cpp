#include "tools/models/counted_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstdint>

namespace lockstep {

CountedCopies::CountedCopies(const std::vector<at::Tensor>& parameters)
    : parameters_(parameters), asked_(parameters.size()), copies_(parameters.size()) {
  for (std::size_t i = 0; i < parameters.size(); ++i) indices_.emplace(parameters[i].unsafeGetTensorImpl(), i);
  offer_.emplace(parameters, *this);
}

at::Tensor CountedCopies::current_copy(const at::Tensor& parameter) {
  const auto found = indices_.find(parameter.unsafeGetTensorImpl());
  if (found == indices_.end()) return {};
  asked_[found->second] = true;
  return copies_[found->second];
}

// Matrices in the order of registration are neighbours, so that several are multiplied without being joined.
void CountedCopies::serve() {
  const at::NoGradGuard no_grad;
  std::int64_t numel = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) numel += asked_[i] ? parameters_[i].numel() : 0;
  const at::Tensor all = at::empty({numel}, at::TensorOptions().dtype(at::kBFloat16));
  std::int64_t offset = 0;
  for (const bool are_matrices : {true, false}) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& parameter = parameters_[i];
      if (!asked_[i] || (parameter.dim() > 1) != are_matrices) continue;
      copies_[i] = all.narrow(0, offset, parameter.numel()).view(parameter.sizes());
      copies_[i].copy_(parameter);
      offset += parameter.numel();
    }
  }
}

}  // namespace lockstep
