// Models of many buckets while one rank is late: the others start all their all-reduces before it starts its first.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// The gradient of parameter i is (i + 1) times the sum of the batch's rows.
struct ChainImpl : torch::nn::Module {
  ChainImpl(int length, std::int64_t width) {
    for (int i = 0; i < length; ++i) {
      weights.push_back(register_parameter("weight" + std::to_string(i), torch::ones({width}, torch::kDouble)));
    }
  }
  torch::Tensor forward(torch::Tensor start, const torch::Tensor& batch) {
    torch::Tensor sum = start;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum = sum + weights[i] * batch * static_cast<double>(i + 1);
    }
    return sum;
  }
  std::vector<torch::Tensor> weights;
};
TORCH_MODULE(Chain);

constexpr int kChainSteps = 3;

void train_chain(Communicator& group, DistributedDataParallel<Chain>& ddp, Chain& chain, const std::string& run) {
  Store& store = *group.membership().store;
  const int size = group.world_size();
  const std::int64_t width = chain->weights.front().numel();
  for (int step = 0; step < kChainSteps; ++step) {
    const int late = (step + static_cast<int>(chain->weights.size())) % size;
    const std::string event = run + " " + std::to_string(step) + "/";
    for (auto& weight : chain->weights) weight.mutable_grad().reset();
    const torch::Tensor start = torch::zeros({2, width}, torch::kDouble).requires_grad_(true);
    const torch::Tensor batch = torch::full({2, width}, 1.0 + group.rank() + step, torch::kDouble);
    const torch::Tensor output = ddp(start, batch);
    if (group.rank() == late) {
      for (int rank = 0; rank < size; ++rank) {
        if (rank != late) store.get(event + std::to_string(rank), Deadline::after(std::chrono::seconds(30)));
      }
    }
    start.register_hook([&](const torch::Tensor&) { store.set(event + std::to_string(group.rank()), "1"); });
    output.sum().backward();
    for (std::size_t i = 0; i < chain->weights.size(); ++i) {
      const double want = 2.0 * static_cast<double>(i + 1) * ((size + 1) / 2.0 + step);
      ASSERT_TRUE(chain->weights[i].grad().eq(want).all().item<bool>())
          << run << ", step " << step << ", parameter " << i << ": " << chain->weights[i].grad();
    }
  }
}

void train_chains(const std::string& engine, const Membership& membership) {
  const std::shared_ptr<Communicator> group = make_communicator(engine, membership);
  for (const int length : {1, 2, 31, 33, 80, 500}) {
    for (const std::int64_t width : {4, 600}) {  // messages that need a box, and messages that need a slot
      for (const bool one_each : {false, true}) {
        Chain chain(length, width);
        DistributedDataParallelOptions options;
        options.process_group = group;
        if (one_each) options.bucket_cap_mb = static_cast<double>(width * 8) / (1 << 20);
        DistributedDataParallel<Chain> ddp(chain, options);
        std::string run = std::to_string(length) + " parameters of " + std::to_string(width);
        if (one_each) run += ", a bucket for each";
        train_chain(*group, ddp, chain, run);
      }
    }
  }
}

// Where there are cores to spare, shared memory's engines give all operations to a thread; here they must not.
class ManyBuckets : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", "0", 1); }
  static void TearDownTestSuite() { ::unsetenv("LOCKSTEP_COMMUNICATION_THREAD"); }
};

TEST_F(ManyBuckets, OneRankLateOfProcesses) {
  for (const int world_size : {2, 3}) {
    run_ranks_as_processes(world_size, [](const Membership& membership) { train_chains("shm", membership); });
  }
}

TEST_F(ManyBuckets, OneRankLateOfThreads) {
  run_ranks_as_threads(2, [](const Membership& membership) { train_chains("thread", membership); });
}

}  // namespace
}  // namespace lockstep
