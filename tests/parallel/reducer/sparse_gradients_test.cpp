// Tests tables with sparse gradients: the ranks get the result of one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRows = 12, kColumns = 3;

struct TableNetImpl : torch::nn::Module {
  explicit TableNetImpl(bool sparse)
      : table(torch::nn::EmbeddingOptions(kRows, kColumns).sparse(sparse)),
        bag(torch::nn::EmbeddingBagOptions(kRows, kColumns).mode(torch::kSum).sparse(sparse)) {
    register_module("table", table);
    register_module("bag", bag);
    register_module("head", head);
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    int next = 1;
    for (auto& parameter : parameters()) {
      parameter.copy_(torch::linspace(-1, 1.0 / next++, parameter.numel(), torch::kDouble).view(parameter.sizes()));
    }
  }
  // A negative row: the table is not used.
  torch::Tensor forward(const torch::Tensor& rows) {
    const torch::Tensor bags = bag->forward(rows.abs().view({1, -1})).sum(0, true);
    const torch::Tensor x = rows[0].item<std::int64_t>() < 0 ? bags : table->forward(rows) * bags;
    return head->forward(torch::tanh(x)).square().sum();
  }
  torch::nn::Embedding table;
  torch::nn::EmbeddingBag bag;
  torch::nn::Linear head{kColumns, 2};
};
TORCH_MODULE(TableNet);

// Rows that are repeated, on one rank or on both; different numbers of them on the ranks; in step 2 none on rank 0, in
// step 3 none at all.
torch::Tensor rows_of(int rank, int step, int micro) {
  if (step == 3 || (step == 2 && rank == 0)) return torch::tensor({-1, -1, -4});
  std::vector<std::int64_t> rows = {1, 1, 2 + rank, 4, (7 * rank + step + micro) % kRows};
  if (rank == 1) rows.push_back(0);
  return torch::tensor(rows);
}

void update(TableNet& net) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : net->parameters()) {
    if (parameter.grad().defined()) parameter.add_(parameter.grad(), -0.1);
    parameter.mutable_grad().reset();
  }
}

struct SparseCase {
  const char* engine;
  int world_size;
  int micro_batches;
};

class SparseGradientsOf : public ::testing::TestWithParam<SparseCase> {};

TEST_P(SparseGradientsOf, AreAveraged) {
  const SparseCase& param = GetParam();
  fuse_ranks(param.engine, param.world_size, [&](const Group& group) {
    TableNet net(true), one(false);  // one process, with dense gradients
    DistributedDataParallel ddp(net, fuse_on(group));
    for (int step = 0; step < 5; ++step) {
      for (int micro = 0; micro < param.micro_batches; ++micro) {
        std::optional<DistributedDataParallelBase::NoSync> quiet;
        if (micro + 1 < param.micro_batches) quiet.emplace(ddp.no_sync());
        ddp(rows_of(group->rank(), step, micro)).backward();
        for (int rank = 0; rank < param.world_size; ++rank) {
          (one->forward(rows_of(rank, step, micro)) / param.world_size).backward();
        }
      }
      const torch::Tensor gradient = net->table->weight.grad();
      const bool any = step != 3 && (step != 2 || param.world_size > 1);
      ASSERT_EQ(gradient.defined(), any) << "step " << step;
      if (gradient.defined()) {
        EXPECT_TRUE(gradient.is_sparse() && gradient.is_coalesced());
        EXPECT_TRUE(gradient.to_dense().allclose(one->table->weight.grad())) << "step " << step;
      }
      update(net);
      update(one);
      for (const auto& item : one->named_parameters()) {
        EXPECT_TRUE(net->named_parameters()[item.key()].allclose(item.value())) << item.key() << ", step " << step;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Engines, SparseGradientsOf,
                         ::testing::Values(SparseCase{"thread", 1, 1}, SparseCase{"thread", 2, 1},
                                           SparseCase{"thread", 3, 2}, SparseCase{"shm", 2, 1},
                                           SparseCase{"gloo", 2, 2}),
                         [](const auto& test) {
                           return std::string(test.param.engine) + "_" + std::to_string(test.param.world_size) +
                                  "_ranks";
                         });

TEST(SparseGradients, OfAModelThatHasNoOthers) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 1).sparse(true));
    DistributedDataParallel ddp(table, fuse_on(group));
    EXPECT_TRUE(ddp.bucket_names().empty());
    ddp(torch::tensor({1, 1, 2 + group->rank()})).sum().backward();
    const torch::Tensor want = torch::tensor({0.0F, 2.0F, 0.5F, 0.5F}).view({4, 1});
    EXPECT_TRUE(table->weight.grad().to_dense().equal(want));
    EXPECT_GT(ddp.last_step().bytes, 0);
  });
}

// A table that is also a layer's weight: its gradient is dense if the layer is used.
TEST(SparseGradients, AreDenseWhereARanksIs) {
  struct TiedTable : torch::nn::Module {
    TiedTable() { register_module("table", table); }
    torch::Tensor forward(bool tied) {
      const torch::Tensor row = table->forward(torch::tensor({1}));
      return (tied ? row.matmul(table->weight.t()) : row).sum();
    }
    torch::nn::Embedding table{torch::nn::EmbeddingOptions(3, 2).sparse(true)};
  };
  fuse_ranks("thread", 2, [](const Group& group) {
    auto net = std::make_shared<TiedTable>();
    {
      const torch::NoGradGuard no_grad;
      net->table->weight.fill_(1);
    }
    DistributedDataParallel ddp(net, fuse_on(group));
    ddp(group->rank() == 0).backward();
    // Rank 0: row 1 gets the sum of all rows (3) and, as every row, itself (1). Rank 1: row 1 gets 1.
    const torch::Tensor want = torch::tensor({0.5F, 0.5F, 2.5F, 2.5F, 0.5F, 0.5F}).view({3, 2});
    EXPECT_TRUE(net->table->weight.grad().equal(want)) << net->table->weight.grad();
  });
}

TEST(SparseGradients, InJoinCountAllRanksOrThoseWithInputs) {
  for (const bool initial : {true, false}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(2, 1).sparse(true));
      DistributedDataParallel ddp(table, fuse_on(group));
      std::vector<float> gradients;
      ddp.join(
          [&] {
            for (int step = 0; step <= group->rank(); ++step) {
              table->weight.mutable_grad().reset();
              ddp(torch::tensor({0})).sum().backward();
              gradients.push_back(table->weight.grad().to_dense()[0].item<float>());
            }
          },
          JoinOptions{initial});
      EXPECT_EQ(gradients.front(), 1.0F);
      EXPECT_EQ(gradients.back(), group->rank() == 1 && initial ? 0.5F : 1.0F);
    });
  }
}

TEST(SparseGradients, OfDifferentTablesAreRefused) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(2, 1).sparse(group->rank() == 0));
    const std::string text = fuse_error([&] { DistributedDataParallel ddp(table, fuse_on(group)); });
    EXPECT_NE(text.find("rank 0 has sparse gradients of {weight}, rank 1 has sparse gradients of {}"),
              std::string::npos)
        << text;
  });
}

// In the following step, as for dense parameters. A fused step leaves the tables to backward.
TEST(SparseGradients, OfATableThatOneRankAloneLoadsAreAnError) {
  for (const bool fused : {false, true}) {
    for (const int who : {0, 1}) {
      fuse_ranks("thread", 2, [&](const Group& group) {
        TableNet net(true);
        DistributedDataParallel ddp(net, fuse_on(group));
        SGD optimizer(net->head->parameters(), torch::optim::SGDOptions(0.1));
        if (fused) {
          ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
        }
        const auto step = [&] {
          ddp(rows_of(group->rank(), 0, 0)).backward();
          optimizer.step();
        };
        step();
        if (group->rank() == who) {
          const torch::NoGradGuard no_grad;
          net->table->weight.set_(net->table->weight.detach() * 2);
        }
        const std::string text = fuse_error(step);
        EXPECT_NE(text.find("parameter \"table.weight\" is not the same on rank 1 as on rank 0"), std::string::npos)
            << text;
      });
    }
  }
}

TEST(SparseGradients, OfATableThatAllRanksLoadAreAveraged) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 1).sparse(true));
    DistributedDataParallel ddp(table, fuse_on(group));
    {
      const torch::NoGradGuard no_grad;
      table->weight.set_(torch::ones({4, 1}));
    }
    ddp(torch::tensor({1, 1, 2 + group->rank()})).sum().backward();
    const torch::Tensor want = torch::tensor({0.0F, 2.0F, 0.5F, 0.5F}).view({4, 1});
    EXPECT_TRUE(table->weight.grad().to_dense().equal(want));
  });
}

}  // namespace
}  // namespace lockstep
