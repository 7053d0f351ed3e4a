#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "lockstep/data/batch.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// DistributedDataParallel for a model of any kind.
class AdaptedDdp : public DistributedDataParallelBase {
 public:
  AdaptedDdp(std::shared_ptr<TrainableModel> model, DistributedDataParallelOptions options)
      : DistributedDataParallelBase(model->tensors(), std::move(options)), model_(std::move(model)) {}

  at::Tensor forward(const Batch& batch) {
    const InForward in_forward(*this);
    at::Tensor output = model_->forward(batch);
    watch_output(output);
    return output;
  }

 protected:
  TrainableModel& model() { return *model_; }

 private:
  std::shared_ptr<TrainableModel> model_;
};

}  // namespace lockstep
