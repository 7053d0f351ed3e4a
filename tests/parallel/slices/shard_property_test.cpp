// Trains one module with virtual shards on different numbers of ranks, over different engines, fused and not, under
// random combinations of options. Weights, buffers and optimizer state must have the bits of one unfused rank.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/slices/lone_group.h"
#include "tests/replicas/recompute.h"
#include "tests/support/mpi_places.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

enum class ShardRule { Momentum, Adam, AdamW };
enum class ShardClip { None, InStep, Before, BeforeByLargest };
enum class ShardZero { Kept, InPlace, InStep, Undefined };

struct ShardCase {
  std::int64_t shards = 8;
  ShardRule rule = ShardRule::AdamW;
  ShardClip clip = ShardClip::InStep;
  ShardZero zero = ShardZero::InStep;
  bool two_groups = false;
  bool frozen = false;
  bool recomputes = false;
  bool batch_norm = true;
  bool small_buckets = false;
  bool is_double = false;
  int width = 150;  // its square is more than two blocks of a norm

  std::string text() const {
    std::ostringstream out;
    out << "shards " << shards << ", rule " << static_cast<int>(rule) << ", clip " << static_cast<int>(clip)
        << ", zero " << static_cast<int>(zero) << ", two groups " << two_groups << ", frozen " << frozen
        << ", recomputes " << recomputes << ", batch norm " << batch_norm << ", small buckets " << small_buckets
        << ", double " << is_double << ", width " << width;
    return out.str();
  }
};

struct ShardNetImpl : torch::nn::Module {
  explicit ShardNetImpl(const ShardCase& options) : recomputes(options.recomputes) {
    first = register_module("first", torch::nn::Linear(5, options.width));
    middle = register_module("middle", torch::nn::Linear(options.width, options.width));
    branch = register_module("branch", torch::nn::Linear(options.width, options.width));
    unused = register_module("unused", torch::nn::Linear(3, 3));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    if (options.batch_norm) norm = register_module("norm", torch::nn::BatchNorm1d(options.width));
    last = register_module("last", torch::nn::Linear(options.width, 3));
    body = [this](torch::Tensor x) { return torch::tanh(middle->forward(x)); };
  }
  torch::Tensor forward(torch::Tensor x, bool take_branch) {
    x = torch::tanh(first->forward(x));
    if (norm) x = norm->forward(x);
    x = dropout(x);
    x = recomputes ? torch::Tensor(Recompute::apply(x, &body)) : body(x);
    x = body(x);  // the second use of its weights
    if (take_branch) x = x + dropout(branch->forward(x));
    return last->forward(x);
  }
  bool recomputes;
  torch::nn::Linear first{nullptr}, middle{nullptr}, branch{nullptr}, unused{nullptr}, last{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  std::function<torch::Tensor(torch::Tensor)> body;
};
TORCH_MODULE(ShardNet);

ShardNet make_shard_net(const ShardCase& options) {
  ShardNet net(options);
  auto generator = at::detail::createCPUGenerator(5);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : net->parameters()) parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.1);
  if (options.is_double) net->to(torch::kDouble);
  if (options.frozen) net->middle->bias.requires_grad_(false);
  return net;
}

template <typename Optimizer, typename Options>
std::unique_ptr<FlatOptimizer> made_optimizer(const ShardCase& options, ShardNet& net, Options first) {
  if (!options.two_groups) return std::make_unique<Optimizer>(net->parameters(), first);
  std::vector<at::Tensor> weights, others;
  for (auto& parameter : net->parameters()) (parameter.dim() > 1 ? weights : others).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(others, std::make_unique<Options>(first));
  groups.emplace_back(weights, std::make_unique<Options>(Options(first).weight_decay(0.1)));
  return std::make_unique<Optimizer>(groups, first);
}

std::unique_ptr<FlatOptimizer> make_shard_optimizer(const ShardCase& options, ShardNet& net) {
  switch (options.rule) {
    case ShardRule::Momentum:
      return made_optimizer<SGD>(options, net, torch::optim::SGDOptions(0.05).momentum(0.9));
    case ShardRule::Adam:
      return made_optimizer<Adam>(options, net, torch::optim::AdamOptions(0.01));
    case ShardRule::AdamW:
      break;
  }
  return made_optimizer<AdamW>(options, net, torch::optim::AdamWOptions(0.01));
}

// Some shards have no samples, and some a single one less than others.
torch::Tensor shard_input(int step, std::int64_t shard, const ShardCase& options) {
  const std::int64_t rows = (step * 3 + shard * 5) % 7 == 0 ? 0 : 2 + (step + shard) % 3;
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + shard));
  return torch::randn({rows, 5}, generator).to(options.is_double ? torch::kDouble : torch::kFloat);
}

struct ShardEnd {
  std::vector<at::Tensor> tensors;  // weights and buffers
  NamedState state;
  std::vector<double> norms;
  FuseMode mode = FuseMode::Off;
};

void take_shard_step(const ShardCase& options, FlatOptimizer& optimizer, ShardNet& net, ShardEnd& end) {
  StepOptions how;
  how.zero_grad = options.zero == ShardZero::InStep;
  how.gradient_factor = 1.25;
  if (options.clip == ShardClip::InStep) how.max_norm = 0.05;
  if (options.clip == ShardClip::Before) end.norms.push_back(clip_grad_norm_(optimizer, 0.05));
  if (options.clip == ShardClip::BeforeByLargest) {
    end.norms.push_back(clip_grad_norm_(optimizer, 0.05, std::numeric_limits<double>::infinity()));
  }
  const StepResult step = optimizer.step_with(how);
  if (options.clip == ShardClip::InStep) end.norms.push_back(step.norm);
  if (options.zero == ShardZero::InPlace) optimizer.zero_grad();
  for (auto& parameter : net->parameters()) {
    if (options.zero == ShardZero::Undefined) parameter.mutable_grad().reset();
  }
}

ShardEnd train_shards(const ShardCase& options, const std::shared_ptr<Communicator>& group, bool fused,
                      bool share_weights) {
  ShardNet net = make_shard_net(options);
  DistributedDataParallelOptions how;
  how.process_group = group;
  how.virtual_shards = options.shards;
  how.bucket_cap_mb = options.small_buckets ? 0.002 : 0;
  DistributedDataParallel ddp(net, how);
  const auto optimizer = make_shard_optimizer(options, net);
  ShardEnd end;
  if (fused) {
    FuseOptions fuse;
    fuse.share_weights = share_weights;
    end.mode = ddp.fuse(*optimizer, fuse).mode();
  }
  for (int step = 0; step < 4; ++step) {
    ddp.run_shards(static_cast<std::uint64_t>(step), [&](std::int64_t shard) {
      const torch::Tensor input = shard_input(step, shard, options);
      if (input.size(0) == 0) return;
      const torch::Tensor output = ddp(input, (step + shard) % 3 == 0);
      (output.pow(2).sum() + output.abs().sum()).backward();
    });
    take_shard_step(options, *optimizer, net, end);
  }
  end.state = ddp.optimizer_state(*optimizer);
  for (const auto& each : net->parameters()) end.tensors.push_back(each.detach().clone());
  for (const auto& each : net->buffers()) end.tensors.push_back(each.detach().clone());
  return end;
}

void expect_bits(const ShardEnd& got, const ShardEnd& want) {
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    EXPECT_TRUE(torch::equal(got.tensors[i], want.tensors[i])) << "tensor " << i;
  }
  EXPECT_EQ(got.norms, want.norms);
  ASSERT_EQ(got.state.size(), want.state.size());
  for (const auto& [name, state] : want.state) {
    EXPECT_EQ(got.state.at(name).step, state.step) << name;
    ASSERT_EQ(got.state.at(name).tensors.size(), state.tensors.size()) << name;
    for (const auto& [kind, tensor] : state.tensors) {
      EXPECT_TRUE(torch::equal(got.state.at(name).tensors.at(kind), tensor)) << name << " " << kind;
    }
  }
}

ShardCase random_case(std::mt19937& random, int world_size) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  ShardCase options;
  options.shards = world_size + below(9);
  options.rule = static_cast<ShardRule>(below(3));
  options.clip = static_cast<ShardClip>(below(4));
  options.zero = static_cast<ShardZero>(below(4));
  options.two_groups = below(2) == 0;
  options.frozen = below(3) == 0;
  options.recomputes = below(3) == 0;
  options.small_buckets = below(2) == 0;
  options.is_double = below(4) == 0;
  options.batch_norm = !options.is_double && below(2) == 0;  // buffers of fp64 are refused
  options.width = below(2) == 0 ? 150 : 37;
  return options;
}

struct ShardWay {
  const char* name;
  const char* engine;
  int world_size;
  int combinations = 6;
  bool share_weights = true;
  int hosts = 1;
  friend std::ostream& operator<<(std::ostream& out, const ShardWay& way) { return out << way.name; }
};

class ShardProperty : public ::testing::TestWithParam<ShardWay> {};

// Seconds: tens of random trainings, each on one rank and on several.
TEST_P(ShardProperty, HasTheBitsOfOneRank) {
  const ShardWay& way = GetParam();
  const bool is_mpi = std::string(way.engine) == "mpi";
  if (is_mpi && MpiPlaces::why_not()) GTEST_SKIP() << *MpiPlaces::why_not();
  const auto& engines = available_engines();
  const bool is_built = std::any_of(engines.begin(), engines.end(),
                                    [&](const Engine& engine) { return engine.name == std::string(way.engine); });
  if (!is_built && *way.engine != '\0') GTEST_SKIP() << "this build has no engine " << way.engine;
  std::mt19937 random(static_cast<unsigned>(way.world_size));
  std::vector<ShardCase> cases;
  for (int i = 0; i < way.combinations; ++i) cases.push_back(random_case(random, way.world_size));
  std::vector<ShardEnd> wanted;
  for (const ShardCase& each : cases) wanted.push_back(train_shards(each, lone_group(), false, true));
  const auto body = [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group =
        make_communicator(way.engine, way.hosts > 1 ? on_hosts(membership, way.hosts) : membership);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(cases[i].text());
      {
        SCOPED_TRACE("not fused");
        expect_bits(train_shards(cases[i], group, false, true), wanted[i]);
      }
      const ShardEnd fused = train_shards(cases[i], group, true, way.share_weights);
      EXPECT_NE(fused.mode, FuseMode::Off);
      expect_bits(fused, wanted[i]);
    }
  };
  if (is_mpi || std::string(way.engine) == "shm") {
    RanksOptions how;
    how.mpi = is_mpi;
    run_ranks_as_processes(way.world_size, body, how);
  } else {
    run_ranks_as_threads(way.world_size, body);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ShardProperty,
                         ::testing::Values(ShardWay{"alone", "thread", 1, 12}, ShardWay{"thread_2", "thread", 2, 12},
                                           ShardWay{"thread_3", "thread", 3, 12}, ShardWay{"thread_4", "thread", 4},
                                           ShardWay{"thread_5", "thread", 5}, ShardWay{"thread_8", "thread", 8},
                                           ShardWay{"thread_apart_3", "thread", 3, 6, false},
                                           ShardWay{"shm_2", "shm", 2}, ShardWay{"shm_3", "shm", 3},
                                           ShardWay{"shm_4", "shm", 4}, ShardWay{"tcp_3", "tcp", 3},
                                           ShardWay{"gloo_4", "gloo", 4}, ShardWay{"mpi_3", "mpi", 3, 3},
                                           ShardWay{"two_hosts_4", "", 4, 6, true, 2},
                                           ShardWay{"two_hosts_5", "", 5, 6, true, 2},
                                           ShardWay{"three_hosts_6", "", 6, 6, true, 3}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
