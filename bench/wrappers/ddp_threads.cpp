// DistributedDataParallel, ranks as threads of this process.
#include "bench/wrappers/wrapper_job.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {

void train_by_ddp_threads(WrapperJob& job) {
  spawn_threads(job.replicas(), [&](const std::shared_ptr<Communicator>& group) {
    const auto model = job.make_model();
    DistributedDataParallelOptions options;
    options.process_group = group;
    DistributedDataParallel ddp(model, options);
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
    ddp.fuse(optimizer);
    for (const Batch& batch : job.batches(group->rank(), group->world_size())) {
      optimizer.zero_grad();
      const at::Tensor loss = model->loss(ddp(batch), batch).mean();
      loss.backward();
      optimizer.step();
    }
  });
}

}  // namespace lockstep
