// Runs trainings under autocast in bf16 with and without published copies, under random combinations of options: every
// weight and every number of the optimizer's state must have the same bits. With weights in shards, copies are compared
// with those of stage 2.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/compute_copy.h"
#include "tests/parallel/fused/bf16_net.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/mpi_places.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

enum class CopyZero { Undefined, InPlace, InStep };
enum class CopyClip { None, InStep, Before };

struct CopyTraining {
  int rule = 0;  // SGD with momentum, Adam, AdamW with amsgrad
  CopyZero zero = CopyZero::Undefined;
  CopyClip clip = CopyClip::None;
  int micro_batches = 1;
  bool quiet = false;  // micro-batches in no_sync
  bool changes_branch = false;
  bool meets_infinity = false;
  bool fuses_again = false;
  bool joins = false;
  bool small_buckets = false;
  bool two_groups = false;
  bool many_units = false;
  bool reshards = true;
  at::ScalarType gradients = at::kFloat;
  std::int64_t width = 24;

  explicit CopyTraining(std::mt19937& random) {
    const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
    rule = below(3);
    zero = static_cast<CopyZero>(below(3));
    clip = static_cast<CopyClip>(below(3));
    micro_batches = 1 + below(3);
    quiet = below(2) == 0;
    changes_branch = below(2) == 0;
    meets_infinity = below(3) == 0;
    fuses_again = below(3) == 0;
    joins = below(3) == 0;
    small_buckets = below(2) == 0;
    two_groups = below(2) == 0;
    if (below(4) == 0) gradients = below(2) == 0 ? at::kBFloat16 : at::kHalf;
    width = below(2) == 0 ? 24 : 20;  // matrices of 20 rows do not fill cache lines
    many_units = below(2) == 0;
    reshards = below(3) != 0;
  }
  std::string text() const {
    std::ostringstream out;
    out << "rule " << rule << ", zero " << static_cast<int>(zero) << ", clip " << static_cast<int>(clip) << ", "
        << micro_batches << " micro-batches, quiet " << quiet << ", branch " << changes_branch << ", infinity "
        << meets_infinity << ", fuses again " << fuses_again << ", joins " << joins << ", small buckets "
        << small_buckets << ", two groups " << two_groups << ", gradients " << gradients << ", width " << width
        << ", many units " << many_units << ", reshards " << reshards;
    return out.str();
  }
};

template <typename Optimizer, typename Options>
std::unique_ptr<FlatOptimizer> copy_groups(const CopyTraining& training, Bf16Net& net, const Options& first) {
  if (!training.two_groups) return std::make_unique<Optimizer>(net.parameters(), first);
  std::vector<at::Tensor> matrices, vectors;
  for (auto& parameter : net.parameters()) (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
  Options second = first;
  second.lr(first.lr() * 3).weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, std::make_unique<Options>(first));
  groups.emplace_back(vectors, std::make_unique<Options>(second));
  return std::make_unique<Optimizer>(groups, first);
}

std::unique_ptr<FlatOptimizer> copy_optimizer(const CopyTraining& training, Bf16Net& net) {
  if (training.rule == 0) {
    return copy_groups<SGD>(training, net, torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(0.01));
  }
  if (training.rule == 1) return copy_groups<Adam>(training, net, torch::optim::AdamOptions(0.002).weight_decay(0.01));
  return copy_groups<AdamW>(training, net, torch::optim::AdamWOptions(0.002).weight_decay(0.1).amsgrad(true));
}

/// Where the ranks are, and what they share.
struct CopyWay {
  const char* engine;  // "hosts": threads on two pretended hosts
  int world_size;
  int combinations;
  int stage = 1;
  bool shares_weights = true;
};

struct CopyResult {
  std::vector<at::Tensor> numbers;
  std::vector<double> norms;
};

/// One training on one rank.
class CopyRun {
 public:
  CopyRun(const CopyWay& way, const CopyTraining& training, const Group& group, bool publishes)
      : way_(way),
        training_(training),
        group_(group),
        publishes_(publishes),
        net_(std::make_shared<Bf16Net>(training.width)),
        ddp_(net_, options(training, group)),
        optimizer_(copy_optimizer(training, *net_)) {
    fuse();
  }

  CopyResult run() {
    const int steps = training_.joins ? 4 + group_->rank() : 5;
    const auto loop = [&] {
      for (int step = 0; step < steps; ++step) make_step(step);
    };
    if (training_.joins) {
      ddp_.join(loop);
    } else {
      loop();
    }
    if (publishes_ && way_.stage < 3) expect_copies();
    if (publishes_ && way_.stage == 3) expect_gathered_copies();
    ddp_.fused_step().unshard();
    for (const at::Tensor& parameter : net_->parameters()) result_.numbers.push_back(parameter.detach().clone());
    for (const auto& [name, state] : ddp_.optimizer_state(*optimizer_)) {
      for (const auto& [kind, tensor] : state.tensors) result_.numbers.push_back(tensor.clone());
    }
    return result_;
  }

 private:
  static DistributedDataParallelOptions options(const CopyTraining& training, const Group& group) {
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = training.small_buckets ? 0.004 : 0;
    return options;
  }
  void fuse() {
    FuseOptions options;
    options.gradient_dtype = training_.gradients;
    if (publishes_) options.compute_dtype = at::kBFloat16;
    options.stage = way_.stage;
    options.share_weights = way_.shares_weights;
    options.reshard_after_forward = training_.reshards;
    // Ranks may differ in whether they run the branch, so it must not be a unit.
    if (training_.many_units && way_.stage == 3) options.units = {"query", "key", "value", "up", "down", "last"};
    ASSERT_NE(ddp_.fuse(*optimizer_, options).mode(), FuseMode::Off);
    EXPECT_EQ(ddp_.fused_step().reason(), "");
  }
  void backward(int step, int micro) {
    const bool branch = !training_.changes_branch || (group_->rank() + step) % 2 == 0;
    const at::Tensor output = ddp_(bf16_net_input(group_->rank(), step, micro, training_.width), branch);
    at::Tensor loss = output.pow(2).mean() + output.abs().mean();
    if (training_.meets_infinity && step == 2 && group_->rank() == 0) {
      loss = loss * std::numeric_limits<float>::infinity();
    }
    loss.backward();
  }
  void make_step(int step) {
    for (int micro = 0; micro < training_.micro_batches; ++micro) {
      const bool is_last = micro + 1 == training_.micro_batches;
      if (training_.quiet && !is_last) {
        const auto quiet = ddp_.no_sync();
        backward(step, micro);
      } else {
        backward(step, micro);
      }
    }
    StepOptions extras;
    if (training_.clip == CopyClip::InStep) extras.max_norm = 0.5;
    if (training_.clip == CopyClip::Before) {
      const double norm = clip_grad_norm_(*optimizer_, 0.5);
      result_.norms.push_back(std::isnan(norm) ? -1 : norm);  // so that equal results compare as equal
    }
    extras.check_finite = training_.meets_infinity;
    extras.zero_grad = training_.zero == CopyZero::InStep;
    const StepResult result = optimizer_->step_with(extras);
    EXPECT_EQ(result.skipped, training_.meets_infinity && step == 2);
    if (training_.zero == CopyZero::InPlace) optimizer_->zero_grad();
    if (training_.zero == CopyZero::Undefined) {
      for (at::Tensor& parameter : net_->parameters()) parameter.mutable_grad().reset();
    }
    if (training_.fuses_again && !training_.joins && step == 1) {
      ddp_.fused_step().unfuse();
      fuse();
    }
  }
  // Layers have found copies to read, and these are what a cast gives. What no layer reads in bf16 has none.
  void expect_copies() {
    const torch::NoGradGuard no_grad;
    const at::Tensor unread = net_->norm->parameters()[0];
    EXPECT_NE(compute_copy(unread, at::kBFloat16).data_ptr(), compute_copy(unread, at::kBFloat16).data_ptr());
    for (const at::Tensor& parameter : net_->parameters()) {
      if (parameter.is_same(unread) || parameter.is_same(net_->norm->parameters()[1])) continue;
      const at::Tensor copy = compute_copy(parameter, at::kBFloat16);
      EXPECT_EQ(copy.data_ptr(), compute_copy(parameter, at::kBFloat16).data_ptr()) << "this is a cast, not a copy";
      EXPECT_TRUE(torch::equal(copy, parameter.to(at::kBFloat16)));
    }
  }

  // A copy has its place at any time, and its elements in forward and backward alone.
  void expect_gathered_copies() {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net_->parameters()) {
      const bool is_unread =
          parameter.is_same(net_->norm->parameters()[0]) || parameter.is_same(net_->norm->parameters()[1]);
      if (is_unread) continue;
      const at::Tensor copy = compute_copy(parameter, at::kBFloat16);
      EXPECT_EQ(copy.data_ptr(), compute_copy(parameter, at::kBFloat16).data_ptr()) << "this is a cast, not a copy";
      EXPECT_NE(fuse_error([&] { copy.sum(); }).find("outside of forward"), std::string::npos);
    }
  }

  const CopyWay way_;
  const CopyTraining& training_;
  Group group_;
  bool publishes_;
  std::shared_ptr<Bf16Net> net_;
  DistributedDataParallel<std::shared_ptr<Bf16Net>> ddp_;
  std::unique_ptr<FlatOptimizer> optimizer_;
  CopyResult result_;
};

void copy_ranks(const CopyWay& way, const std::function<void(const Group&)>& body) {
  const std::string engine = way.engine;
  if (engine == "hosts") {
    run_ranks_as_threads(way.world_size,
                         [&](const Membership& membership) { body(make_communicator("", on_two_hosts(membership))); });
  } else if (engine == "mpi") {
    RanksOptions how;
    how.mpi = true;
    run_ranks_as_processes(
        way.world_size, [&](const Membership& membership) { body(make_communicator("mpi", membership)); }, how);
  } else {
    fuse_ranks(engine, way.world_size, body);
  }
}

class FuseBf16Property : public ::testing::TestWithParam<CopyWay> {};

std::string name_of_copy_way(const CopyWay& way) {
  return std::string(way.engine) + "_" + std::to_string(way.world_size) + "_stage_" + std::to_string(way.stage) +
         (way.shares_weights ? "" : "_own_weights");
}

// Seconds: tens of random trainings, each with and without fuse.
TEST_P(FuseBf16Property, HasTheBitsOfCastingInEveryForward) {
  const bool is_mpi = std::string(GetParam().engine) == "mpi";
  if (is_mpi && MpiPlaces::why_not()) GTEST_SKIP() << *MpiPlaces::why_not();
  std::mt19937 random(static_cast<unsigned>(GetParam().world_size));
  std::vector<CopyTraining> all;
  for (int i = 0; i < GetParam().combinations; ++i) {
    const CopyTraining training(random);
    if (!runs_case(i, name_of_copy_way(GetParam()))) continue;
    all.push_back(training);
    if (GetParam().stage == 3) all.back().joins = false;
  }
  ASSERT_FALSE(all.empty());
  copy_ranks(GetParam(), [&](const Group& group) {
    for (const CopyTraining& training : all) {
      SCOPED_TRACE(training.text());
      CopyWay known = GetParam();
      if (known.stage == 3) known.stage = 2;
      const CopyResult want = CopyRun(known, training, group, GetParam().stage == 3).run();
      const CopyResult got = CopyRun(GetParam(), training, group, true).run();
      EXPECT_EQ(got.norms, want.norms);
      ASSERT_EQ(got.numbers.size(), want.numbers.size());
      for (std::size_t i = 0; i < want.numbers.size(); ++i) {
        EXPECT_TRUE(torch::equal(got.numbers[i], want.numbers[i])) << "tensor " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Engines, FuseBf16Property,
    ::testing::Values(CopyWay{"thread", 1, 30}, CopyWay{"thread", 2, 40}, CopyWay{"thread", 3, 20},
                      CopyWay{"thread", 4, 20}, CopyWay{"shm", 1, 10}, CopyWay{"shm", 2, 20}, CopyWay{"shm", 3, 10},
                      CopyWay{"thread", 2, 20, 1, false}, CopyWay{"shm", 3, 10, 1, false}, CopyWay{"gloo", 2, 20},
                      CopyWay{"gloo", 3, 10}, CopyWay{"tcp", 3, 10}, CopyWay{"mpi", 2, 4}, CopyWay{"hosts", 3, 10},
                      CopyWay{"hosts", 4, 20}, CopyWay{"thread", 2, 20, 2}, CopyWay{"shm", 3, 10, 2},
                      CopyWay{"gloo", 2, 10, 2}, CopyWay{"hosts", 4, 10, 2}, CopyWay{"thread", 2, 30, 3, false},
                      CopyWay{"shm", 3, 10, 3, false}, CopyWay{"gloo", 2, 20, 3}, CopyWay{"gloo", 3, 10, 3},
                      CopyWay{"tcp", 3, 10, 3}, CopyWay{"hosts", 3, 10, 3}, CopyWay{"hosts", 4, 20, 3},
                      CopyWay{"hosts", 6, 10, 3}),
    [](const auto& test) { return name_of_copy_way(test.param); });

}  // namespace
}  // namespace lockstep
