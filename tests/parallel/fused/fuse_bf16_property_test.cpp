// Runs trainings under autocast in bf16 with and without published copies, under random combinations of options: every
// weight and every number of the optimizer's state must have the same bits.
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
  }
  std::string text() const {
    std::ostringstream out;
    out << "rule " << rule << ", zero " << static_cast<int>(zero) << ", clip " << static_cast<int>(clip) << ", "
        << micro_batches << " micro-batches, quiet " << quiet << ", branch " << changes_branch << ", infinity "
        << meets_infinity << ", fuses again " << fuses_again << ", joins " << joins << ", small buckets "
        << small_buckets << ", two groups " << two_groups << ", gradients " << gradients << ", width " << width;
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

struct CopyResult {
  std::vector<at::Tensor> numbers;
  std::vector<double> norms;
};

/// One training on one rank.
class CopyRun {
 public:
  CopyRun(const CopyTraining& training, const Group& group, bool publishes)
      : training_(training),
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
    if (publishes_) expect_copies();
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
    ASSERT_EQ(ddp_.fuse(*optimizer_, options), FuseMode::SharedWeights);
    EXPECT_EQ(ddp_.fuse_reason(), "");
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
      ddp_.unfuse();
      fuse();
    }
  }
  // Layers have found copies to read, and these are what a cast gives.
  void expect_copies() {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net_->parameters()) {
      const at::Tensor copy = compute_copy(parameter, at::kBFloat16);
      EXPECT_EQ(copy.data_ptr(), compute_copy(parameter, at::kBFloat16).data_ptr()) << "this is a cast, not a copy";
      EXPECT_TRUE(torch::equal(copy, parameter.to(at::kBFloat16)));
    }
  }

  const CopyTraining& training_;
  Group group_;
  bool publishes_;
  std::shared_ptr<Bf16Net> net_;
  DistributedDataParallel<std::shared_ptr<Bf16Net>> ddp_;
  std::unique_ptr<FlatOptimizer> optimizer_;
  CopyResult result_;
};

struct CopyWay {
  const char* engine;
  int world_size;
  int combinations;
};

class FuseBf16Property : public ::testing::TestWithParam<CopyWay> {};

TEST_P(FuseBf16Property, HasTheBitsOfCastingInEveryForward) {
  std::mt19937 random(static_cast<unsigned>(GetParam().world_size));
  std::vector<CopyTraining> all;
  for (int i = 0; i < GetParam().combinations; ++i) all.emplace_back(random);
  fuse_ranks(GetParam().engine, GetParam().world_size, [&](const Group& group) {
    for (const CopyTraining& training : all) {
      SCOPED_TRACE(training.text());
      const CopyResult want = CopyRun(training, group, false).run();
      const CopyResult got = CopyRun(training, group, true).run();
      EXPECT_EQ(got.norms, want.norms);
      ASSERT_EQ(got.numbers.size(), want.numbers.size());
      for (std::size_t i = 0; i < want.numbers.size(); ++i) {
        EXPECT_TRUE(torch::equal(got.numbers[i], want.numbers[i])) << "tensor " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Engines, FuseBf16Property,
                         ::testing::Values(CopyWay{"thread", 1, 30}, CopyWay{"thread", 2, 40}, CopyWay{"thread", 3, 20},
                                           CopyWay{"thread", 4, 20}, CopyWay{"shm", 1, 10}, CopyWay{"shm", 2, 20},
                                           CopyWay{"shm", 3, 10}),
                         [](const auto& test) {
                           return std::string(test.param.engine) + "_" + std::to_string(test.param.world_size);
                         });

}  // namespace
}  // namespace lockstep
