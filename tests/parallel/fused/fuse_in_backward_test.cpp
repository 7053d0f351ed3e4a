// Tests that a fused optimizer's gradients are sent while backward runs, if ranks have weights of their own, and that
// later changes to gradients are handled.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::optim::SGDOptions;

struct InBackward {
  explicit InBackward(const Group& group) : model(make_linear(20, 4)), ddp(model, small_buckets(group)) {
    EXPECT_EQ(ddp.fuse(optimizer).mode(), FuseMode::ShardedState);
  }
  static DistributedDataParallelOptions small_buckets(const Group& group) {
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = 0.0001;
    return options;
  }
  void backward(int rank, int step) { ddp(fuse_batch(rank, step, 20)).sum().backward(); }
  std::size_t reduced_buckets() { return ddp.last_step().buckets; }

  torch::nn::Linear model;
  DistributedDataParallel<torch::nn::Linear> ddp;
  SGD optimizer{model->parameters(), SGDOptions(1)};
};

// The gradient of the weights, which is equal for each output's row.
at::Tensor gradient_of(int rank, int step) { return fuse_batch(rank, step, 20).sum(0).expand({4, 20}); }

TEST(FuseInBackward, ReducesEachBucketOnceBeforeTheStep) {
  fuse_ranks("gloo", 2, [](Group group) {
    InBackward job(group);
    EXPECT_EQ(job.ddp.bucket_names().size(), 2U);
    const at::Tensor before = job.model->weight.detach().clone();
    job.backward(group->rank(), 0);
    EXPECT_EQ(job.reduced_buckets(), 2U);
    job.optimizer.step();
    EXPECT_EQ(job.reduced_buckets(), 2U);
    const at::Tensor average = (gradient_of(0, 0) + gradient_of(1, 0)) / 2;
    EXPECT_TRUE(torch::equal(job.model->weight.detach(), before - average));
  });
}

TEST(FuseInBackward, LeavesGradientsToTheStepWithinNoSync) {
  fuse_ranks("gloo", 2, [](Group group) {
    InBackward job(group);
    const at::Tensor before = job.model->weight.detach().clone();
    {
      const auto quiet = job.ddp.no_sync();
      job.backward(group->rank(), 0);
    }
    EXPECT_EQ(job.reduced_buckets(), 0U);
    job.optimizer.step();
    EXPECT_EQ(job.reduced_buckets(), 2U);
    const at::Tensor average = (gradient_of(0, 0) + gradient_of(1, 0)) / 2;
    EXPECT_TRUE(torch::equal(job.model->weight.detach(), before - average));
  });
}

TEST(FuseInBackward, ReducesAgainWhatOneRankChangedBeforeTheStep) {
  fuse_ranks("gloo", 3, [](Group group) {
    InBackward job(group);
    const at::Tensor before = job.model->weight.detach().clone();
    job.backward(group->rank(), 0);
    if (group->rank() == 1) job.model->weight.mutable_grad().mul_(2);
    job.optimizer.step();
    EXPECT_EQ(job.reduced_buckets(), 4U);
    const at::Tensor average = (gradient_of(0, 0) + gradient_of(1, 0) * 2 + gradient_of(2, 0)) / 3;
    EXPECT_TRUE(torch::allclose(job.model->weight.detach(), before - average, 0, 1e-6));
  });
}

TEST(FuseInBackward, ReducesAgainWhatOneRankDroppedBeforeTheStep) {
  fuse_ranks("gloo", 2, [](Group group) {
    InBackward job(group);
    const at::Tensor before = job.model->weight.detach().clone();
    job.backward(group->rank(), 0);
    if (group->rank() == 0) job.model->weight.mutable_grad().reset();
    job.optimizer.step();
    EXPECT_TRUE(torch::allclose(job.model->weight.detach(), before - gradient_of(1, 0) / 2, 0, 1e-6));
  });
}

TEST(FuseInBackward, ReducesOnceWhereAClipComesBeforeTheStep) {
  fuse_ranks("gloo", 2, [](Group group) {
    InBackward job(group);
    const at::Tensor before = job.model->weight.detach().clone();
    job.backward(group->rank(), 0);
    const double norm = clip_grad_norm_(job.optimizer, 0.25);
    job.optimizer.step();
    EXPECT_EQ(job.reduced_buckets(), 2U);
    const at::Tensor average = (gradient_of(0, 0) + gradient_of(1, 0)) / 2;
    EXPECT_TRUE(torch::allclose(job.model->weight.detach(), before - average * (0.25 / (norm + 1e-6)), 0, 1e-6));
  });
}

TEST(FuseInBackward, UsesASumForOneStepOnly) {
  fuse_ranks("gloo", 2, [](Group group) {
    InBackward job(group);
    StepOptions zeroing;
    zeroing.zero_grad = true;
    job.backward(group->rank(), 0);
    job.optimizer.step_with(zeroing);
    const at::Tensor after = job.model->weight.detach().clone();
    job.optimizer.step();  // all gradients are zero
    EXPECT_TRUE(torch::equal(job.model->weight.detach(), after));
  });
}

}  // namespace
}  // namespace lockstep
