// Tests that every combination of options gives the result of a single process: compares the parameters of K replicas
// with DistributedDataParallel after 5 steps with those of one model that sees all ranks' batches.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/replicas/recompute.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

enum class Graph { Plain, Shared, UnusedEverywhere, UnusedOnSomeRanks, Reentrant, ReentrantShared };
enum class ZeroGrad { Undefined, Zero };

struct Options {
  Graph graph = Graph::Plain;
  torch::Dtype dtype = torch::kFloat;
  double bucket_cap_mb = 0;
  int micro_batches = 1;
  bool static_graph = false;
  bool hook = false;
  ZeroGrad zero_grad = ZeroGrad::Undefined;

  std::string text() const {
    std::ostringstream out;
    out << "graph " << static_cast<int>(graph) << ", " << dtype << ", cap " << bucket_cap_mb << ", micro-batches "
        << micro_batches << ", static " << static_graph << ", hook " << hook << ", zero_grad "
        << static_cast<int>(zero_grad);
    return out.str();
  }
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(Graph kind) : graph(kind) {
    first = register_module("first", torch::nn::Linear(5, 7));
    middle = register_module("middle", torch::nn::Linear(7, 7));
    branch = register_module("branch", torch::nn::Linear(7, 7));
    last = register_module("last", torch::nn::Linear(7, 3));
    body = [this](torch::Tensor x) { return torch::tanh(middle->forward(x)); };
  }
  torch::Tensor forward(torch::Tensor x, bool take_branch) {
    x = torch::tanh(first->forward(x));
    switch (graph) {
      case Graph::Reentrant:
        x = Recompute::apply(x, &body);
        break;
      case Graph::ReentrantShared:  // gradients of `middle` arrive three times in one backward
        x = torch::tanh(middle->forward(x));
        x = Recompute::apply(x, &body);
        x = Recompute::apply(x, &body);
        break;
      case Graph::Shared:
        x = torch::tanh(middle->forward(torch::tanh(middle->forward(x))));
        break;
      default:
        x = torch::tanh(middle->forward(x));
    }
    if (take_branch) x = x + branch->forward(x);
    return last->forward(x);
  }
  Graph graph;
  torch::nn::Linear first{nullptr}, middle{nullptr}, branch{nullptr}, last{nullptr};
  std::function<torch::Tensor(torch::Tensor)> body;
};
TORCH_MODULE(Net);

bool takes_branch(Graph graph, int rank, int step) {
  if (graph == Graph::UnusedEverywhere) return step >= 3;  // and later it is used after all
  if (graph == Graph::UnusedOnSomeRanks) return (rank + step) % 2 == 0;
  return true;
}

torch::Tensor batch(int rank, int step, int micro, torch::Dtype dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * rank + 10 * step + micro));
  return torch::randn({4, 5}, generator, torch::TensorOptions().dtype(dtype));
}

torch::Tensor loss_of(const torch::Tensor& output) { return output.pow(2).mean() + output.abs().mean(); }

Net make_net(const Options& options, std::uint64_t seed) {
  static std::mutex one_at_a_time;  // the default generator belongs to the process
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  torch::manual_seed(seed);
  Net net(options.graph);
  net->to(options.dtype);
  return net;
}

constexpr int kSteps = 5;

torch::optim::SGD make_optimizer(Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

void zero_grad(Net& net, ZeroGrad how) {
  for (auto& parameter : net->parameters()) {
    if (how == ZeroGrad::Undefined) {
      parameter.mutable_grad().reset();
    } else if (parameter.grad().defined()) {
      parameter.mutable_grad().zero_();
    }
  }
}

// One process: all ranks' batches, one after the other.
std::vector<torch::Tensor> reference(const Options& options, int world_size) {
  Net net = make_net(options, 1);
  auto optimizer = make_optimizer(net);
  for (int step = 0; step < kSteps; ++step) {
    zero_grad(net, options.zero_grad);
    for (int rank = 0; rank < world_size; ++rank) {
      for (int micro = 0; micro < options.micro_batches; ++micro) {
        const bool branch = takes_branch(options.graph, rank, step);
        loss_of(net->forward(batch(rank, step, micro, options.dtype), branch)).backward();
      }
    }
    for (auto& parameter : net->parameters()) {
      if (parameter.grad().defined()) parameter.mutable_grad().div_(world_size);
    }
    optimizer.step();
  }
  return net->parameters();
}

std::vector<torch::Tensor> replica(const Options& options, const std::shared_ptr<Communicator>& group) {
  Net net = make_net(options, 1 + static_cast<std::uint64_t>(group->rank()));  // rank 0's weights must be used
  DistributedDataParallelOptions ddp_options;
  ddp_options.process_group = group;
  ddp_options.bucket_cap_mb = options.bucket_cap_mb;
  ddp_options.static_graph = options.static_graph;
  DistributedDataParallel ddp(net, ddp_options);
  if (options.hook) ddp.register_comm_hook(allreduce_hook());
  auto optimizer = make_optimizer(net);
  for (int step = 0; step < kSteps; ++step) {
    zero_grad(net, options.zero_grad);
    const bool branch = takes_branch(options.graph, group->rank(), step);
    for (int micro = 0; micro + 1 < options.micro_batches; ++micro) {
      const auto quiet = ddp.no_sync();
      loss_of(ddp(batch(group->rank(), step, micro, options.dtype), branch)).backward();
    }
    loss_of(ddp(batch(group->rank(), step, options.micro_batches - 1, options.dtype), branch)).backward();
    optimizer.step();
  }
  return net->parameters();
}

void expect_equal(const std::vector<torch::Tensor>& got, const std::vector<torch::Tensor>& want,
                  const Options& options) {
  const double tolerance = options.dtype == torch::kDouble ? 1e-12 : 1e-6;
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double scale = want[i].abs().max().item<double>();
    const double difference = (got[i] - want[i]).abs().max().item<double>();
    EXPECT_LE(difference, tolerance * scale) << "parameter " << i << ": " << options.text();
  }
}

std::vector<Options> combinations() {
  std::vector<Options> all;
  for (const Graph graph : {Graph::Plain, Graph::Shared, Graph::UnusedEverywhere, Graph::UnusedOnSomeRanks,
                            Graph::Reentrant, Graph::ReentrantShared}) {
    for (const auto dtype : {torch::kFloat, torch::kDouble}) {
      for (const double cap : {0.0, 0.0002}) {
        for (const int micro_batches : {1, 3}) {
          for (const bool static_graph : {false, true}) {
            for (const bool hook : {false, true}) {
              for (const ZeroGrad zero_grad : {ZeroGrad::Undefined, ZeroGrad::Zero}) {
                // static_graph forbids graphs that change between steps.
                const bool changes = graph == Graph::UnusedEverywhere || graph == Graph::UnusedOnSomeRanks;
                if (static_graph && changes) continue;
                all.push_back({graph, dtype, cap, micro_batches, static_graph, hook, zero_grad});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

class DataParallelProperty : public ::testing::TestWithParam<int> {};

// Seconds: a fifth of some thousand combinations of options, each trained twice.
TEST_P(DataParallelProperty, EqualsOneProcess) {
  const int world_size = GetParam();
  const auto all = combinations();
  ASSERT_GT(all.size(), 200u);
  std::vector<std::vector<torch::Tensor>> want;
  for (const auto& options : all) want.push_back(reference(options, world_size));
  run_ranks_as_threads(world_size, [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("", membership);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(all[i].text());
      expect_equal(replica(all[i], group), want[i], all[i]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, DataParallelProperty, ::testing::Values(1, 2, 3, 4),
                         [](const auto& test) { return "ranks_" + std::to_string(test.param); });

}  // namespace
}  // namespace lockstep
