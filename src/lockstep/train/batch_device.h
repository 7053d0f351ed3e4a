#pragma once

#include <c10/core/Device.h>

#include "lockstep/data/batch.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// The device of the model's first parameter; the CPU if it has none.
c10::Device device_of(TrainableModel& model);

/// The batch on `device`; tensors that are already there are not copied.
Batch on_device(const Batch& batch, c10::Device device);

/// Moves parameters and buffers to `device`; the tensors stay the same objects.
void move_to_device(const ModuleTensors& tensors, c10::Device device);

}  // namespace lockstep
