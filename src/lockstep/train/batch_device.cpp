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

void move_to_device(const ModuleTensors& tensors, c10::Device device) {
  const auto move = [&](const std::vector<NamedTensor>& all) {
    for (const NamedTensor& entry : all) {
      if (entry.tensor.device() == device || entry.tensor.is_meta()) continue;
      at::Tensor tensor = entry.tensor;
      tensor.set_data(tensor.detach().to(device));
      if (tensor.grad().defined()) tensor.mutable_grad() = tensor.grad().to(device);
    }
  };
  move(tensors.parameters);
  move(tensors.buffers());
}

}  // namespace lockstep
