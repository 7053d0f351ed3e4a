#pragma once

#include <c10/core/Device.h>

#include "lockstep/data/batch.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// Where a model's weights are: of its first parameter, else the CPU.
c10::Device device_of(TrainableModel& model);

/// The batch on that device; tensors that are there already are not copied.
Batch on_device(const Batch& batch, c10::Device device);

/// Moves parameters and buffers there; the tensors stay the same objects.
void move_to_device(const ModuleTensors& tensors, c10::Device device);

}  // namespace lockstep
