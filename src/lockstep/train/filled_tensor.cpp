#include "lockstep/train/filled_tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

namespace lockstep {

at::Tensor filled_tensor(at::IntArrayRef sizes, double value, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(sizes, options.requires_grad(false));
  tensor.copy_(at::scalar_tensor(value, at::TensorOptions(at::kDouble).device(tensor.device())));
  return tensor;
}

void put_into(const at::Tensor& place, const at::Tensor& tensor) {
  at::Tensor part = place;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) part = part.narrow(d, 0, tensor.size(d));
  part.copy_(tensor);
}

}  // namespace lockstep
