// DistributedDataParallel, ranks as processes that `lockstep run` started.
#include "bench/wrappers/wrapper_job.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {

void train_by_ddp_processes(WrapperJob& job) {
  init_process_group();
  const auto model = job.make_model();
  DistributedDataParallel ddp(model);
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  ddp.fuse(optimizer);
  for (const Batch& batch : job.batches(get_rank(), get_world_size())) {
    optimizer.zero_grad();
    const at::Tensor loss = model->loss(ddp(batch), batch).mean();
    loss.backward();
    optimizer.step();
  }
  destroy_process_group();
}

}  // namespace lockstep
