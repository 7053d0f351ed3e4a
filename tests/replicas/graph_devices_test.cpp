#include "lockstep/replicas/replication/graph_devices.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(GraphDevices, AreThoseOfAllStepsBehindTheOutputs) {
  const c10::Device cpu(c10::kCPU), other(c10::kMeta);
  const at::Tensor here = at::ones({2}).requires_grad_();
  const at::Tensor there = at::ones({2}, at::TensorOptions(other)).requires_grad_();
  EXPECT_TRUE(reaches_device({here * 2}, cpu));
  EXPECT_FALSE(reaches_device({here * 2, here.sum()}, other));
  EXPECT_TRUE(reaches_device({here * 2, (there * 3).sum()}, other));
  EXPECT_FALSE(reaches_device({here, at::Tensor(), at::ones({1})}, cpu)) << "no step of the graph";
}

}  // namespace
}  // namespace lockstep
