// DataParallel: the outputs are gathered, and the loss is computed on the first device.
#include "lockstep/replicas/data_parallel.h"
#include "bench/wrappers/wrapper_job.h"
#include "lockstep/optim/adam.h"

namespace lockstep {

void train_by_data_parallel(WrapperJob& job) {
  const auto model = job.make_model();
  DataParallel parallel(model, job.devices());
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  for (const Batch& batch : job.batches()) {
    optimizer.zero_grad();
    const at::Tensor loss = model->loss(parallel(batch), batch).mean();
    loss.backward();
    optimizer.step();
  }
}

}  // namespace lockstep
