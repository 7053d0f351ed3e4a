#include "lockstep/parallel/functional.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/expect_error.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using Rows = std::vector<std::int64_t>;

std::int64_t total(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

// Equal on all ranks.
at::Tensor numbers_for(std::int64_t rows, std::int64_t seed) {
  return (torch::arange(rows * 5, torch::kDouble) * 0.37 + static_cast<double>(seed)).sin().view({rows, 5});
}

// The sum over anchors of the loss of telling each one's own candidate from all others, as contrastive losses have it.
at::Tensor contrast(const at::Tensor& anchors, const at::Tensor& candidates, std::int64_t first) {
  const at::Tensor scores = anchors.matmul(candidates.t()) * 3;
  const at::Tensor own = torch::arange(first, first + anchors.size(0));
  return torch::nn::functional::cross_entropy(scores, own,
                                              torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

class FunctionalOf : public ::testing::TestWithParam<std::pair<std::string, Rows>> {
 protected:
  static void on_ranks(const std::function<void(const std::shared_ptr<Communicator>&, std::int64_t first)>& body) {
    const Rows& rows = GetParam().second;
    run_ranks_as_threads(static_cast<int>(rows.size()), [&](const Membership& membership) {
      const Rows before(rows.begin(), rows.begin() + membership.rank);
      body(make_communicator(GetParam().first, membership), total(before));
    });
  }
};

TEST_P(FunctionalOf, GatheredRowsHaveTheGradientsOfTheWholeBatch) {
  const std::int64_t all = total(GetParam().second);
  on_ranks([&](const std::shared_ptr<Communicator>& group, std::int64_t first) {
    const std::int64_t count = GetParam().second[static_cast<std::size_t>(group->rank())];
    const at::Tensor anchors = numbers_for(all, 1).requires_grad_(true);
    const at::Tensor candidates = numbers_for(all, 2).requires_grad_(true);
    contrast(anchors, candidates, 0).backward();
    const at::Tensor own_anchors = anchors.detach().narrow(0, first, count).clone().requires_grad_(true);
    const at::Tensor own_candidates = candidates.detach().narrow(0, first, count).clone().requires_grad_(true);
    const at::Tensor gathered = functional::all_gather(group, own_candidates);
    EXPECT_TRUE(gathered.equal(candidates.detach()));
    contrast(own_anchors, gathered, first).backward();
    EXPECT_TRUE(own_anchors.grad().allclose(anchors.grad().narrow(0, first, count), 1e-12, 1e-12));
    EXPECT_TRUE(own_candidates.grad().allclose(candidates.grad().narrow(0, first, count), 1e-12, 1e-12));
  });
}

// d/dx of (d/dx of sum x³)², which needs the derivative of backward.
TEST_P(FunctionalOf, SecondDerivativesPassThroughTheRanks) {
  const std::int64_t all = total(GetParam().second);
  const auto penalty = [](const at::Tensor& cubes, const at::Tensor& x) {
    return torch::autograd::grad({cubes.sum()}, {x}, {}, true, true)[0].square().sum();
  };
  on_ranks([&](const std::shared_ptr<Communicator>& group, std::int64_t first) {
    const std::int64_t count = GetParam().second[static_cast<std::size_t>(group->rank())];
    const double ranks = group->world_size();
    const at::Tensor whole = numbers_for(all, 3).requires_grad_(true);
    (penalty(whole.pow(3), whole) * ranks * ranks).backward();
    const at::Tensor own = whole.detach().narrow(0, first, count).clone().requires_grad_(true);
    penalty(functional::all_gather(group, own).pow(3), own).backward();
    EXPECT_TRUE(own.grad().allclose(whole.grad().narrow(0, first, count), 1e-12, 1e-12));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FunctionalOf,
                         ::testing::Values(std::make_pair("thread", Rows{4}), std::make_pair("thread", Rows{3, 3}),
                                           std::make_pair("thread", Rows{1, 4, 0}), std::make_pair("tcp", Rows{2, 3}),
                                           std::make_pair("thread", Rows{2, 0, 0, 5})),
                         [](const auto& test) {
                           std::string name = test.param.first;
                           for (const std::int64_t rows : test.param.second) name += "_" + std::to_string(rows);
                           return name;
                         });

// The gradient of rank r's loss, sum of out * weight_r, is known for each of these.
TEST(Functional, ReductionsHaveTheGradientsOfTheSumOfAllLosses) {
  run_ranks_as_threads(3, [](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("thread", membership);
    const int rank = group->rank();
    const auto weight = [](int of) { return numbers_for(6, 10 + of); };
    const at::Tensor all_weights = weight(0) + weight(1) + weight(2);
    const auto in = [&] { return numbers_for(6, rank).requires_grad_(true); };
    const at::Tensor sum = numbers_for(6, 0) + numbers_for(6, 1) + numbers_for(6, 2);

    const at::Tensor summed = in(), averaged = in(), scattered = in(), sent = in();
    const at::Tensor out = functional::all_reduce(group, summed);
    EXPECT_TRUE(out.allclose(sum));
    (out * weight(rank)).sum().backward();
    EXPECT_TRUE(summed.grad().allclose(all_weights));

    (functional::all_reduce(group, averaged, ReduceOp::Avg) * weight(rank)).sum().backward();
    EXPECT_TRUE(averaged.grad().allclose(all_weights / 3));

    const at::Tensor part = functional::reduce_scatter(group, scattered, ReduceOp::Avg);
    EXPECT_TRUE(part.allclose(sum.narrow(0, 2 * rank, 2) / 3));
    (part * weight(rank).narrow(0, 0, 2)).sum().backward();
    const at::Tensor weights =
        at::cat({weight(0).narrow(0, 0, 2), weight(1).narrow(0, 0, 2), weight(2).narrow(0, 0, 2)});
    EXPECT_TRUE(scattered.grad().allclose(weights / 3));

    const at::Tensor copy = functional::broadcast(group, sent, 1);
    EXPECT_TRUE(copy.equal(numbers_for(6, 1)));
    (copy * weight(rank)).sum().backward();
    EXPECT_TRUE(sent.grad().allclose(rank == 1 ? all_weights : at::zeros_like(all_weights)));
  });
}

// Ranks that each have a part of the batch, and one process with all of it, in fp32.
TEST(Functional, AContrastiveLossUnderDdpHasTheGradientsOfOneProcess) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    DistributedDataParallelOptions options;
    options.process_group = make_communicator("thread", membership);
    const auto model = [] {
      torch::nn::Linear linear(5, 4);
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : linear->parameters()) {
        parameter.copy_((torch::arange(parameter.numel(), torch::kFloat) * 0.9).cos().view(parameter.sizes()));
      }
      return linear;
    };
    torch::nn::Linear whole = model(), replica = model();
    const at::Tensor anchors = numbers_for(8, 1).to(torch::kFloat), candidates = numbers_for(8, 2).to(torch::kFloat);
    (contrast(whole->forward(anchors), whole->forward(candidates), 0) / 8).backward();
    DistributedDataParallel ddp(replica.ptr(), options);
    const std::int64_t first = 4 * membership.rank;
    const at::Tensor both = at::cat({anchors.narrow(0, first, 4), candidates.narrow(0, first, 4)});
    const at::Tensor out = ddp(both);
    const at::Tensor gathered = functional::all_gather(options.process_group, out.narrow(0, 4, 4));
    (contrast(out.narrow(0, 0, 4), gathered, first) / 4).backward();
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(replica->parameters()[i].grad().allclose(whole->parameters()[i].grad(), 1e-6, 1e-6)) << i;
    }
  });
}

TEST(Functional, RefusesWhatHasNoDerivativeOrNoRows) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("thread", membership);
    const at::Tensor rows = at::ones({3, 2}), number = at::ones({});
    expect_error("all_reduce has no derivative by this operation",
                 [&] { functional::all_reduce(group, rows, ReduceOp::Max); });
    expect_error("reduce_scatter cannot divide 3 rows among 2 ranks", [&] { functional::reduce_scatter(group, rows); });
    expect_error("tensor.unsqueeze(0)", [&] { functional::all_gather(group, number); });
  });
}

}  // namespace
}  // namespace lockstep
