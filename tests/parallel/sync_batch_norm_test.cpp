#include "lockstep/parallel/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

at::Tensor wave(std::vector<std::int64_t> sizes, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return (torch::arange(count, torch::kFloat) * 0.7 + phase).sin().view(sizes) * 3 + 100;  // a mean far from zero
}

struct NormCase {
  int world_size;
  std::vector<std::int64_t> rows;  // on each rank
  std::vector<std::int64_t> rest;  // the other dimensions
};

class SyncBatchNormOf : public ::testing::TestWithParam<NormCase> {};

// Compares K ranks with LibTorch's BatchNorm in one process over the whole batch.
TEST_P(SyncBatchNormOf, EqualsBatchNormOfTheWholeBatch) {
  const NormCase& param = GetParam();
  std::vector<std::int64_t> all_sizes{0, 4};
  all_sizes.insert(all_sizes.end(), param.rest.begin(), param.rest.end());
  for (const std::int64_t rows : param.rows) all_sizes[0] += rows;
  run_ranks_as_threads(param.world_size, [&](const Membership& membership) {
    SyncBatchNormOptions options(4);
    options.process_group = make_communicator("", membership);
    SyncBatchNorm ours(options);
    torch::nn::BatchNorm2d reference(4);  // its forward requires 4 dimensions; the functional form takes any
    std::int64_t first = 0;
    for (int rank = 0; rank < membership.rank; ++rank) first += param.rows[static_cast<std::size_t>(rank)];
    const std::int64_t rows = param.rows[static_cast<std::size_t>(membership.rank)];
    for (int step = 0; step < 3; ++step) {
      const at::Tensor whole = wave(all_sizes, step).requires_grad_(true), slope = wave(all_sizes, 10 + step) - 100;
      const at::Tensor wanted = at::batch_norm(whole, reference->weight, reference->bias, reference->running_mean,
                                               reference->running_var, true, 0.1, 1e-5, false);
      (wanted * slope).sum().backward();
      const at::Tensor mine = whole.detach().narrow(0, first, rows).clone().requires_grad_(true);
      const at::Tensor output = ours->forward(mine);
      (output * slope.narrow(0, first, rows)).sum().backward();
      EXPECT_TRUE(output.allclose(wanted.narrow(0, first, rows), 1e-3, 1e-4)) << "step " << step;
      EXPECT_TRUE(mine.grad().allclose(whole.grad().narrow(0, first, rows), 1e-3, 1e-4)) << "step " << step;
    }
    EXPECT_TRUE(ours->running_mean.allclose(reference->running_mean, 1e-4));
    EXPECT_TRUE(ours->running_var.allclose(reference->running_var, 1e-4));
    EXPECT_EQ(ours->num_batches_tracked.item<std::int64_t>(), 3);
    at::Tensor weight_grad = ours->weight.grad().clone(), bias_grad = ours->bias.grad().clone();
    options.process_group->all_reduce(weight_grad);
    options.process_group->all_reduce(bias_grad);
    EXPECT_TRUE(weight_grad.allclose(reference->weight.grad(), 1e-3, 1e-3));
    EXPECT_TRUE(bias_grad.allclose(reference->bias.grad(), 1e-3, 1e-3));
    ours->eval();
    const at::Tensor probe = wave({2, 4, 3}, 5);
    EXPECT_TRUE(
        ours->forward(probe).allclose(at::batch_norm(probe, reference->weight, reference->bias, reference->running_mean,
                                                     reference->running_var, false, 0.1, 1e-5, false),
                                      1e-3, 1e-3));
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, SyncBatchNormOf,
                         ::testing::Values(NormCase{1, {5}, {}}, NormCase{2, {3, 3}, {}}, NormCase{2, {1, 4}, {5, 2}},
                                           NormCase{3, {2, 0, 3}, {6}}, NormCase{4, {1, 1, 1, 1}, {}}));

// Compares an input of 16 bits with the same numbers in fp64: only the rounding of the output and the gradient remains,
// also if the mean is far from zero. LibTorch computes so, too.
TEST(SyncBatchNorm, ComputesInputsOf16BitsInFp32) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const at::ScalarType of_parameters : {type, at::kFloat}) {
      fuse_ranks("thread", 2, [&](const Group& group) {
        const double precision = type == at::kHalf ? 0x1p-11 : 0x1p-8;  // of a rounding to nearest, relative
        SyncBatchNormOptions options(4);
        options.process_group = group;
        SyncBatchNorm ours(options);
        ours->to(of_parameters);
        const at::Tensor whole = wave({6, 4, 5}, 1).to(type), slope = (wave({6, 4, 5}, 10) - 100).to(type);
        const at::Tensor exact = whole.to(at::kDouble).requires_grad_(true);
        const at::Tensor wanted = at::batch_norm(exact, {}, {}, {}, {}, true, 0.1, 1e-5, false);
        (wanted * slope.to(at::kDouble)).sum().backward();
        const at::Tensor mine = whole.narrow(0, 3 * group->rank(), 3).clone().requires_grad_(true);
        const at::Tensor output = ours->forward(mine);
        EXPECT_EQ(output.scalar_type(), type);
        (output * slope.narrow(0, 3 * group->rank(), 3)).sum().backward();
        EXPECT_EQ(mine.grad().scalar_type(), type);
        const auto far_off = [&](const at::Tensor& got, const at::Tensor& all) {
          const at::Tensor want = all.detach().narrow(0, 3 * group->rank(), 3);
          return ((got.detach().to(at::kDouble) - want).abs() / want.abs().clamp_min(0.5)).max().item<double>();
        };
        EXPECT_LE(far_off(output, wanted), 1.01 * precision);
        EXPECT_LE(far_off(mine.grad(), exact.grad()), 6 * precision);  // the normalised input is kept in 16 bits
      });
    }
  }
}

// Two branches around a normalisation; a rank may use only one of them.
template <typename Norm>
struct BranchedNet : torch::nn::Module {
  explicit BranchedNet(Norm module) : norm(std::move(module)) {
    register_module("before", before);
    register_module("norm", norm);
    register_module("after", after);
    register_module("branch", branch);
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    int next = 1;
    for (auto& parameter : parameters()) {
      parameter.copy_(wave(parameter.sizes().vec(), next++).to(torch::kDouble).sub_(100));
    }
  }
  at::Tensor forward(at::Tensor x, bool takes_branch) {
    x = norm->forward(before->forward(x));
    return takes_branch ? after->forward(x) + branch->forward(x) : after->forward(x);
  }
  torch::nn::Linear before{4, 4}, after{4, 2}, branch{4, 2};
  Norm norm;
};

at::Tensor branch_loss(const at::Tensor& output) { return (output * output.detach().cos()).sum(); }

// On rank 1 the branch's bucket, which is the first, waits for the end of backward, while the normalisation does not.
TEST(SyncBatchNorm, GoesWithParametersThatAreUnusedOnOneRank) {
  const auto batch = [](int rank, int step) { return wave({3, 4}, 7 * rank + step).to(torch::kDouble) - 100; };
  for (const std::string engine : {"thread", "shm", "gloo"}) {
    SCOPED_TRACE(engine);
    fuse_ranks(engine, 2, [&](const Group& group) {
      SyncBatchNormOptions options(4);
      options.process_group = group;
      auto net = std::make_shared<BranchedNet<SyncBatchNorm>>(SyncBatchNorm(options));
      auto wrapping = fuse_on(group);
      wrapping.bucket_cap_mb = 1e-6;  // a bucket for each parameter
      DistributedDataParallel ddp(net, wrapping);
      auto one = std::make_shared<BranchedNet<torch::nn::BatchNorm1d>>(torch::nn::BatchNorm1d(4));
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        one->zero_grad();
        branch_loss(ddp(batch(group->rank(), step), group->rank() == 0)).backward();
        // One process: both batches are normalised together, then each goes through its own branch.
        const at::Tensor whole = one->norm->forward(one->before->forward(at::cat({batch(0, step), batch(1, step)})));
        const at::Tensor first = whole.narrow(0, 0, 3), second = whole.narrow(0, 3, 3);
        const at::Tensor loss = branch_loss(one->after->forward(first) + one->branch->forward(first)) +
                                branch_loss(one->after->forward(second));
        (loss / 2).backward();
        for (const auto& item : one->named_parameters()) {
          EXPECT_TRUE(net->named_parameters()[item.key()].grad().allclose(item.value().grad(), 1e-9, 1e-9))
              << item.key() << ", step " << step;
        }
      }
    });
  }
}

TEST(SyncBatchNorm, WithoutAGroupIsBatchNorm) {
  SyncBatchNorm ours(SyncBatchNormOptions(4));
  torch::nn::BatchNorm1d reference(4);
  const at::Tensor input = wave({6, 4}, 0);
  EXPECT_TRUE(ours->forward(input).allclose(reference->forward(input)));
  EXPECT_TRUE(ours->running_var.allclose(reference->running_var));
}

TEST(SyncBatchNorm, RefusesWhatItCannotNormalise) {
  EXPECT_THROW(SyncBatchNorm(SyncBatchNormOptions(0)), Error);
  run_ranks_as_threads(2, [](const Membership& membership) {
    SyncBatchNormOptions options(4);
    options.process_group = make_communicator("", membership);
    SyncBatchNorm norm(options);
    EXPECT_THROW(norm->forward(torch::zeros({2, 3})), Error);
    EXPECT_THROW(norm->forward(torch::zeros({membership.rank, 4})), Error);  // a single value in all
  });
}

}  // namespace
}  // namespace lockstep
