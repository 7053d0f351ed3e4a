// lockstep.h alone is enough for a program, and brings all that is promised.
#include "lockstep/lockstep.h"

#include <gtest/gtest.h>

namespace {

TEST(Umbrella, IsEnoughForAProgram) {
  torch::manual_seed(1);
  lockstep::ProcessGroupOptions alone;
  alone.world_size = 1;
  alone.rank = 0;
  // Another test of this process may have joined it.
  if (!lockstep::is_initialized()) lockstep::init_process_group(alone);
  torch::nn::Linear model(3, 2);
  lockstep::DistributedDataParallel ddp(model);
  lockstep::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5));
  const at::Tensor before = model->bias.clone();
  ddp(torch::ones({4, 3})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(model->bias.equal(before - 0.5 * 4));
}

}  // namespace
