#include "lockstep/parallel/parallel_context.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// A rank has its torchrun variables. Without a store, the port and the job's name say where the ranks of one host meet:
// at a Unix socket.
void meet_without_a_store() {
  ::unsetenv("LOCKSTEP_STORE");
  ::setenv("MASTER_PORT", "29500", 1);
  ::setenv("TORCHELASTIC_RUN_ID", ("parallel-context-" + std::to_string(::getppid())).c_str(), 1);
}

void on_context_ranks(int world_size, const std::function<void()>& body) {
  run_ranks_as_processes(world_size, [&](const Membership&) {
    meet_without_a_store();
    body();
  });
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() : linear(6, 4), norm(4), unused(3, 3), head(4, 1) {
    register_module("linear", linear);
    register_module("norm", norm);
    register_module("unused", unused);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(norm(linear(x)).relu()); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear unused;
  torch::nn::Linear head;
};
TORCH_MODULE(Normed);

at::Tensor inputs_of(int rank, int step) {
  torch::manual_seed(1000 + 10 * step + rank);
  return torch::randn({5, 6}) + rank;
}

TEST(ParallelContext, TellsWhoIsWho) {
  on_context_ranks(3, [] {
    auto context = ParallelContext::from_torch();
    for (const ParallelMode mode : {ParallelMode::Global, ParallelMode::Data}) {
      EXPECT_EQ(context->get_world_size(mode), 3);
      EXPECT_EQ(context->get_local_rank(mode), get_rank());
      EXPECT_EQ(context->get_ranks_in_group(mode), (std::vector<int>{0, 1, 2}));
      EXPECT_EQ(context->get_next_global_rank(mode), (get_rank() + 1) % 3);
      EXPECT_EQ(context->get_prev_global_rank(mode), (get_rank() + 2) % 3);
      EXPECT_EQ(context->is_first_rank(mode), get_rank() == 0);
      EXPECT_EQ(context->is_last_rank(mode), get_rank() == 2);
    }
    EXPECT_EQ(ParallelContext::get_context(), context);
    context->destroy();
    EXPECT_FALSE(is_initialized());
  });
}

// Compares the plain model with an independent computation: each rank's gradients, averaged by hand.
TEST(ParallelContext, ReadyKeepsThePlainModelsEqual) {
  constexpr int kRanks = 2;
  on_context_ranks(kRanks, [] {
    auto context = ParallelContext::from_env();
    torch::manual_seed(7 + get_rank());  // different models, which ready makes equal
    Normed model;
    ready(model, context);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      std::vector<Normed> alone;
      for (int rank = 0; rank < kRanks; ++rank) {
        Normed copy;
        const torch::NoGradGuard no_grad;
        for (const auto& parameter : model->named_parameters())
          copy->named_parameters()[parameter.key()].copy_(*parameter);
        for (const auto& buffer : model->named_buffers()) copy->named_buffers()[buffer.key()].copy_(*buffer);
        alone.push_back(copy);
      }
      for (int rank = 0; rank < kRanks; ++rank)
        alone[static_cast<std::size_t>(rank)]->forward(inputs_of(rank, step)).pow(2).mean().backward();
      model->zero_grad();
      model->forward(inputs_of(get_rank(), step)).pow(2).mean().backward();
      for (const auto& parameter : model->named_parameters()) {
        const at::Tensor first = alone[0]->named_parameters()[parameter.key()].grad();
        if (!first.defined()) {
          EXPECT_FALSE(parameter->grad().defined()) << parameter.key();
          continue;
        }
        const at::Tensor mean = (first + alone[1]->named_parameters()[parameter.key()].grad()) / kRanks;
        EXPECT_TRUE(parameter->grad().allclose(mean, 1e-5, 1e-7)) << parameter.key() << " in step " << step;
      }
      for (const auto& buffer : model->named_buffers()) {  // rank 0's
        EXPECT_TRUE(buffer->equal(alone[0]->named_buffers()[buffer.key()])) << buffer.key() << " in step " << step;
      }
      optimizer.step();
    }
  });
}

TEST(ParallelContext, RefusesASizeThatIsNotTheJobs) {
  on_context_ranks(2, [] {
    ParallelContextOptions options;
    options.data_parallel_size = 4;
    try {
      ParallelContext::from_torch(options);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("data_parallel_size is 4, but the job has 2 ranks"), std::string::npos)
          << error.what();
    }
    EXPECT_FALSE(is_initialized());
  });
}

TEST(ParallelContext, RefusesALauncherThatStartedNothing) {
  EXPECT_THROW(ParallelContext::from_slurm(), Error);
  EXPECT_THROW(ParallelContext::from_mpi(), Error);
  EXPECT_THROW(ParallelContext::get_context(), Error);
}

}  // namespace
}  // namespace lockstep
