// DataParallel whose replicas compute their own losses: no output is gathered.
#include "lockstep/replicas/parallel_loss.h"

#include "bench/wrappers/wrapper_job.h"
#include "lockstep/optim/adam.h"

namespace lockstep {

void train_by_parallel_loss(WrapperJob& job) {
  const auto model = job.make_model();
  DataParallel parallel(model, job.devices());
  const auto loss_of = [](auto& replica, const Batch& part) { return replica->loss(replica->forward(part), part); };
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  for (const Batch& batch : job.batches()) {
    optimizer.zero_grad();
    const at::Tensor loss = parallel_loss(parallel, loss_of, batch).mean();
    loss.backward();
    optimizer.step();
  }
}

}  // namespace lockstep
