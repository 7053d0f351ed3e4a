#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

namespace fake_gpu {

using Values = std::vector<c10::IValue>;

/// What takes the place of the parts of a value.
struct Substitutes {
  std::function<at::Tensor(const at::Tensor&)> tensor;
  c10::Device device = c10::kCPU;  ///< of a device's name
};

/// A value with its tensors, and those in its lists, replaced.
c10::IValue replaced(const c10::IValue& value, const Substitutes& substitutes);
/// Calls `visit` for each tensor of a value, undefined ones included.
void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit);

/// The device of a call: that of its CUDA tensors, else of an argument that names one, else the current one.
/// @throws c10::Error as LibTorch does if there are tensors of two devices; a tensor of the host may stand for a number
c10::Device device_of_call(const std::string& name, const Values& arguments);

/// A tensor of the host over the same bytes as a CUDA tensor, for what runs on a stream.
at::Tensor host_tensor(const at::Tensor& tensor);
/// A tensor of the host as a kernel gets it: its values at the time of the call.
at::Tensor launched_copy(const at::Tensor& tensor);

}  // namespace fake_gpu
