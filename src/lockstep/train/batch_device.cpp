#include "lockstep/train/batch_device.h"

#include <ATen/TensorOperators.h>

namespace lockstep {

c10::Device device_of(TrainableModel& model) {
  const ModuleTensors tensors = model.tensors();
  return tensors.parameters.empty() ? c10::Device(c10::kCPU) : tensors.parameters.front().tensor.device();
}

Batch on_device(const Batch& batch, c10::Device device) {
  Batch moved;
  for (const auto& [name, tensor] : batch) moved[name] = tensor.to(device, /*non_blocking=*/true);
  return moved;
}

}  // namespace lockstep
