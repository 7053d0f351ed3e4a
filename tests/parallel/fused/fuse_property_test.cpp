// Runs fused and unfused steps side by side, with one module, data and optimizer, under every combination of options;
// compares weights and optimizer state after some steps.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <random>
#include <sstream>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/replicas/recompute.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

enum class FuseRule { SGD, Momentum, Nesterov, Adam, AmsGrad, AdamW };
enum class FuseGraph { Plain, Shared, UnusedEverywhere, UnusedOnSomeRanks, Reentrant, ReentrantShared };
enum class FuseZero { Undefined, InPlace, InStep };
enum class FuseClip { None, InStep, Before };
enum class FuseAccumulate { None, NoSync, Synchronised };

struct FuseOptionsUnderTest {
  FuseRule rule = FuseRule::AdamW;
  FuseGraph graph = FuseGraph::Plain;
  FuseZero zero = FuseZero::Undefined;
  FuseClip clip = FuseClip::None;
  FuseAccumulate accumulate = FuseAccumulate::None;
  bool two_groups = false;
  bool frozen = false;
  bool channels_last = false;  // has a weight that cannot be fused
  bool small_buckets = false;
  bool static_graph = false;
  bool is_double = false;
  int width = 37;

  std::string text() const {
    std::ostringstream out;
    out << "rule " << static_cast<int>(rule) << ", graph " << static_cast<int>(graph) << ", zero "
        << static_cast<int>(zero) << ", clip " << static_cast<int>(clip) << ", accumulate "
        << static_cast<int>(accumulate) << ", two groups " << two_groups << ", frozen " << frozen << ", channels last "
        << channels_last << ", small buckets " << small_buckets << ", static graph " << static_graph << ", double "
        << is_double << ", width " << width;
    return out.str();
  }
  // Sums of squares are divided by rank, and gradients that are averaged twice, or in two parts, are rounded twice.
  bool same_bits() const {
    return clip == FuseClip::None && accumulate != FuseAccumulate::Synchronised && graph != FuseGraph::ReentrantShared;
  }
};

struct FuseNetImpl : torch::nn::Module {
  explicit FuseNetImpl(int width) {
    first = register_module("first", torch::nn::Linear(5, width));
    middle = register_module("middle", torch::nn::Linear(width, width));
    branch = register_module("branch", torch::nn::Linear(width, width));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    last = register_module("last", torch::nn::Linear(width, 3));
    body = [this](torch::Tensor x) { return torch::tanh(middle->forward(x)); };
  }
  torch::Tensor forward(torch::Tensor x, FuseGraph graph, bool take_branch) {
    x = torch::tanh(norm(first->forward(x)));
    x = graph == FuseGraph::Reentrant ? torch::Tensor(Recompute::apply(x, &body)) : body(x);
    if (graph == FuseGraph::Shared) x = body(x);
    if (graph == FuseGraph::ReentrantShared) x = Recompute::apply(Recompute::apply(x, &body), &body);
    if (take_branch) x = x + branch->forward(x);
    return last->forward(x);
  }
  torch::nn::Linear first{nullptr}, middle{nullptr}, branch{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  std::function<torch::Tensor(torch::Tensor)> body;
};
TORCH_MODULE(FuseNet);

FuseNet make_fuse_net(const FuseOptionsUnderTest& options) {
  FuseNet net(options.width);
  auto generator = at::detail::createCPUGenerator(7);
  const torch::NoGradGuard no_grad;
  const double size = 0.2 * std::sqrt(37.0 / options.width);  // so that a wide net's steps do not diverge
  for (auto& parameter : net->parameters()) parameter.copy_(torch::randn(parameter.sizes(), generator) * size);
  if (options.is_double) net->to(torch::kDouble);
  if (options.frozen) net->middle->bias.requires_grad_(false);
  if (options.channels_last) {
    auto& weight = net->branch->weight;
    weight.set_data(weight.detach().t().contiguous().t());
  }
  return net;
}

template <typename Optimizer, typename Options>
std::unique_ptr<FlatOptimizer> make_fuse_groups(const FuseOptionsUnderTest& options, FuseNet& net, Options first) {
  if (!options.two_groups) return std::make_unique<Optimizer>(net->parameters(), first);
  std::vector<at::Tensor> decayed, others;
  for (auto& parameter : net->parameters()) (parameter.dim() > 1 ? decayed : others).push_back(parameter);
  Options second = first;
  second.lr(first.lr() * 3).weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<Options>(first));
  groups.emplace_back(others, std::make_unique<Options>(second));
  return std::make_unique<Optimizer>(groups, first);
}

std::unique_ptr<FlatOptimizer> make_fuse_optimizer(const FuseOptionsUnderTest& options, FuseNet& net) {
  using torch::optim::AdamOptions;
  using torch::optim::AdamWOptions;
  using torch::optim::SGDOptions;
  switch (options.rule) {
    case FuseRule::SGD:
      return make_fuse_groups<SGD>(options, net, SGDOptions(0.01).weight_decay(0.01));
    case FuseRule::Momentum:
      return make_fuse_groups<SGD>(options, net, SGDOptions(0.01).momentum(0.9).dampening(0.1));
    case FuseRule::Nesterov:
      return make_fuse_groups<SGD>(options, net, SGDOptions(0.01).momentum(0.9).nesterov(true).weight_decay(0.01));
    case FuseRule::Adam:
      return make_fuse_groups<Adam>(options, net, AdamOptions(0.001).weight_decay(0.01));
    case FuseRule::AmsGrad:
      return make_fuse_groups<Adam>(options, net, AdamOptions(0.001).amsgrad(true));
    case FuseRule::AdamW:
      break;
  }
  return make_fuse_groups<AdamW>(options, net, AdamWOptions(0.001).weight_decay(0.1));
}

torch::Tensor fuse_input(int rank, int step, int micro, const FuseOptionsUnderTest& options) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * rank + 10 * step + micro));
  return torch::randn({4, 5}, generator).to(options.is_double ? torch::kDouble : torch::kFloat);
}

bool fuse_takes_branch(FuseGraph graph, int rank, int step) {
  if (graph == FuseGraph::UnusedEverywhere) return step == 3;
  if (graph == FuseGraph::UnusedOnSomeRanks) return (rank + step) % 2 == 0;
  return true;
}

struct FuseResult {
  FuseMode mode = FuseMode::Off;
  std::vector<at::Tensor> weights;
  std::vector<double> norms;
  NamedState state;
};

void take_fuse_step(const FuseOptionsUnderTest& options, FlatOptimizer& optimizer, FuseNet& net, FuseResult& result) {
  StepOptions extras;
  if (options.clip == FuseClip::InStep) extras.max_norm = 0.5;
  if (options.clip == FuseClip::Before) result.norms.push_back(clip_grad_norm_(optimizer, 0.5));
  extras.zero_grad = options.zero == FuseZero::InStep;
  const StepResult step = optimizer.step_with(extras);
  if (options.clip == FuseClip::InStep) result.norms.push_back(step.norm);
  if (options.zero == FuseZero::InPlace) optimizer.zero_grad();
  for (auto& parameter : net->parameters()) {
    if (options.zero == FuseZero::Undefined) parameter.mutable_grad().reset();
  }
}

// @param how  null: not fused
FuseResult run_fuse_steps(const FuseOptionsUnderTest& options, const std::shared_ptr<Communicator>& group,
                          const FuseOptions* how) {
  FuseNet net = make_fuse_net(options);
  DistributedDataParallelOptions ddp_options;
  ddp_options.process_group = group;
  ddp_options.static_graph = options.static_graph;
  ddp_options.bucket_cap_mb = options.small_buckets ? 0.002 : 0;
  DistributedDataParallel ddp(net, ddp_options);
  const auto optimizer = make_fuse_optimizer(options, net);
  FuseResult result;
  if (how != nullptr) result.mode = ddp.fuse(*optimizer, *how).mode();
  const auto backward = [&](int step, int micro) {
    const bool branch = fuse_takes_branch(options.graph, group->rank(), step);
    const at::Tensor output = ddp(fuse_input(group->rank(), step, micro, options), options.graph, branch);
    (output.pow(2).mean() + output.abs().mean()).backward();
  };
  for (int step = 0; step < 5; ++step) {
    const int micro_batches = options.accumulate == FuseAccumulate::None ? 1 : 3;
    for (int micro = 0; micro + 1 < micro_batches; ++micro) {
      if (options.accumulate == FuseAccumulate::Synchronised) {
        backward(step, micro);
      } else {
        const auto quiet = ddp.no_sync();
        backward(step, micro);
      }
    }
    backward(step, micro_batches - 1);
    take_fuse_step(options, *optimizer, net, result);
  }
  result.state = ddp.optimizer_state(*optimizer);
  ddp.fused_step().unshard();
  for (const auto& parameter : net->parameters()) result.weights.push_back(parameter.detach().clone());
  return result;
}

void expect_close(const at::Tensor& got, const at::Tensor& want, const FuseOptionsUnderTest& options,
                  const std::string& what) {
  if (options.same_bits()) {
    EXPECT_TRUE(torch::equal(got, want)) << what;
    return;
  }
  const double scale = std::max(want.abs().max().item<double>(), 1e-3);
  EXPECT_LE((got - want).abs().max().item<double>(), (options.is_double ? 1e-11 : 2e-6) * scale) << what;
}

void expect_same(const FuseResult& got, const FuseResult& want, const FuseOptionsUnderTest& options) {
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (std::size_t i = 0; i < got.weights.size(); ++i) {
    expect_close(got.weights[i], want.weights[i], options, "parameter " + std::to_string(i));
  }
  ASSERT_EQ(got.norms.size(), want.norms.size());
  for (std::size_t i = 0; i < got.norms.size(); ++i) EXPECT_NEAR(got.norms[i], want.norms[i], 1e-5 * want.norms[i]);
  ASSERT_EQ(got.state.size(), want.state.size());
  for (const auto& [name, state] : want.state) {
    ASSERT_EQ(got.state.count(name), 1U) << name;
    EXPECT_EQ(got.state.at(name).step, state.step) << name;
    ASSERT_EQ(got.state.at(name).tensors.size(), state.tensors.size()) << name;
    for (const auto& [kind, tensor] : state.tensors) {
      expect_close(got.state.at(name).tensors.at(kind), tensor, options, name + " " + kind);
    }
  }
}

FuseOptionsUnderTest random_fuse_options(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  FuseOptionsUnderTest options;
  options.rule = static_cast<FuseRule>(below(6));
  options.graph = static_cast<FuseGraph>(below(6));
  options.zero = static_cast<FuseZero>(below(3));
  options.clip = below(2) == 0 ? FuseClip::None : static_cast<FuseClip>(below(3));
  options.accumulate = static_cast<FuseAccumulate>(below(3));
  options.two_groups = below(2) == 0;
  options.frozen = below(3) == 0;
  options.channels_last = below(4) == 0;
  options.small_buckets = below(2) == 0;
  options.is_double = below(4) == 0;
  // static_graph forbids graphs that change between steps.
  const bool changes = options.graph == FuseGraph::UnusedEverywhere || options.graph == FuseGraph::UnusedOnSomeRanks;
  options.static_graph = !changes && below(3) == 0;
  return options;
}

struct FuseWay {
  const char* name;
  const char* engine;
  bool share_weights;
  int combinations;
  int hosts = 1;
  int stage = 1;
  bool processes = false;  // shm has them always
  bool hybrid = false;
};

class FuseProperty : public ::testing::TestWithParam<std::tuple<FuseWay, int>> {};

TEST_P(FuseProperty, EqualsTheUnfusedStep) {
  const auto& [way, world_size] = GetParam();
  std::mt19937 random(static_cast<unsigned>(world_size));
  std::vector<FuseOptionsUnderTest> all;
  for (int i = 0; i < way.combinations; ++i) {
    const FuseOptionsUnderTest options = random_fuse_options(random);
    if (!runs_case(i, way.name)) continue;
    all.push_back(options);
    // Between hosts, large buckets go another way than small ones.
    if (way.hosts > 1 && i % 2 == 0) all.back().width = 161;
  }
  ASSERT_FALSE(all.empty());
  const auto body = [&all, &way = way](const Membership& membership) {
    const std::shared_ptr<Communicator> group =
        make_communicator(way.engine, way.hosts > 1 ? on_hosts(membership, way.hosts) : membership);
    const bool is_one_copy = std::string(way.engine) != "gloo" && way.stage < 3;
    const FuseMode want = way.share_weights && (group->world_size() == 1 || is_one_copy) ? FuseMode::SharedWeights
                                                                                         : FuseMode::ShardedState;
    for (const auto& options : all) {
      SCOPED_TRACE(options.text());
      FuseOptions how;
      how.share_weights = way.share_weights;
      how.stage = way.stage;
      how.hybrid_shard = way.hybrid;
      how.slots = 1 + static_cast<std::size_t>(&options - all.data()) % 3;
      if (way.stage == 3) how.units = {"middle", "last"};  // some ranks leave out "branch"
      how.reshard_after_forward = options.small_buckets != options.two_groups;
      const FuseResult plain = run_fuse_steps(options, group, nullptr);
      const FuseResult fused = run_fuse_steps(options, group, &how);
      // A single bucket with the weight that is not plain memory is not fused.
      if (!options.channels_last || options.small_buckets) {
        EXPECT_EQ(fused.mode, want);
      }
      expect_same(fused, plain, options);
    }
  };
  if (way.processes || std::string(way.engine) == "shm") {
    run_ranks_as_processes(world_size, body);
  } else {
    run_ranks_as_threads(world_size, body);
  }
}

std::string name_of_way(const ::testing::TestParamInfo<std::tuple<FuseWay, int>>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(TwoHosts, FuseProperty,
                         ::testing::Combine(::testing::Values(FuseWay{"two_hosts", "", true, 30, 2},
                                                              FuseWay{"two_hosts_stage_2", "", true, 30, 2, 2},
                                                              FuseWay{"two_hosts_hybrid", "", true, 20, 2, 2, true,
                                                                      true},
                                                              FuseWay{"two_hosts_stage_3", "", true, 30, 2, 3, true},
                                                              FuseWay{"two_hosts_apart_stage_3", "", false, 10, 2, 3},
                                                              FuseWay{"two_hosts_apart", "", false, 10, 2}),
                                            ::testing::Values(4, 6)),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(ThreeHosts, FuseProperty,
                         ::testing::Combine(::testing::Values(FuseWay{"three_hosts", "", true, 30, 3},
                                                              FuseWay{"three_hosts_stage_2", "", true, 20, 3, 2},
                                                              FuseWay{"three_hosts_stage_3", "", true, 20, 3, 3}),
                                            ::testing::Values(6)),
                         name_of_way);
INSTANTIATE_TEST_SUITE_P(Ways, FuseProperty,
                         ::testing::Combine(::testing::Values(FuseWay{"thread", "thread", true, 60},
                                                              FuseWay{"thread_apart", "thread", false, 30},
                                                              FuseWay{"shm", "shm", true, 30},
                                                              FuseWay{"gloo", "gloo", true, 30},
                                                              FuseWay{"thread_stage_2", "thread", true, 40, 1, 2},
                                                              FuseWay{"apart_stage_2", "thread", false, 20, 1, 2},
                                                              FuseWay{"shm_stage_2", "shm", true, 20, 1, 2},
                                                              FuseWay{"gloo_stage_2", "gloo", true, 30, 1, 2},
                                                              FuseWay{"apart_stage_3", "thread", false, 40, 1, 3},
                                                              FuseWay{"shm_apart_stage_3", "shm", false, 20, 1, 3},
                                                              FuseWay{"gloo_stage_3", "gloo", true, 30, 1, 3}),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of_way);

}  // namespace
}  // namespace lockstep
