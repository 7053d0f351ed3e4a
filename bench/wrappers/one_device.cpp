// One model on one device.
#include "bench/wrappers/wrapper_job.h"
#include "lockstep/optim/adam.h"

namespace lockstep {

void train_on_one_device(WrapperJob& job) {
  const auto model = job.make_model();
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  for (const Batch& batch : job.batches()) {
    optimizer.zero_grad();
    const at::Tensor loss = model->loss(model->forward(batch), batch).mean();
    loss.backward();
    optimizer.step();
  }
}

}  // namespace lockstep
