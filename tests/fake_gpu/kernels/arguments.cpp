#include "tests/fake_gpu/kernels/arguments.h"

#include <c10/cuda/CUDAFunctions.h>

#include <optional>

#include "tests/fake_gpu/runtime/device_memory.h"

namespace fake_gpu {
namespace {

// Operators that take tensors of the host beside those of a device: indices, and numbers of the foreach operators.
bool takes_host_tensors(const std::string& name) {
  for (const char* prefix : {"aten::index", "aten::_index", "aten::_unsafe_index", "aten::_foreach", "aten::copy"}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

}  // namespace

c10::IValue replaced(const c10::IValue& value, const Substitutes& substitutes) {
  if (value.isTensor()) return substitutes.tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(substitutes.tensor(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional<at::Tensor>(substitutes.tensor(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return substitutes.device;
  return value;
}

void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor) visit(*tensor);
    }
  }
}

c10::Device device_of_call(const std::string& name, const Values& arguments) {
  std::optional<c10::Device> found;
  bool of_host = false;
  const auto look_at = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!tensor.is_cuda()) {
      of_host = of_host || (tensor.is_cpu() && tensor.dim() > 0);
      return;
    }
    TORCH_CHECK(!found || *found == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", *found, " and ",
                tensor.device(), "! (", name, ")");
    found = tensor.device();
  };
  for (const c10::IValue& argument : arguments) for_each_tensor(argument, look_at);
  TORCH_CHECK(!found || !of_host || takes_host_tensors(name),
              "Expected all tensors to be on the same device, but found at least two devices, ", *found, " and cpu! (",
              name, ")");
  for (const c10::IValue& argument : arguments) {
    if (!found && argument.isDevice() && argument.toDevice().is_cuda() && argument.toDevice().has_index()) {
      found = argument.toDevice();
    }
  }
  return found ? *found : c10::Device(c10::kCUDA, c10::cuda::current_device());
}

at::Tensor host_tensor(const at::Tensor& tensor) {
  const auto options = at::TensorOptions(tensor.scalar_type()).device(at::kCPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::from_blob(host_view(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), options);
}

at::Tensor launched_copy(const at::Tensor& tensor) {
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace fake_gpu
