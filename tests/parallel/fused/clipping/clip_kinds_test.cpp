// Tests that a fused optimizer clips by every kind of norm, over every kind of list, as LibTorch clips averages.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sizes that leave gaps between parameters, and a layer without gradients.
struct ClippedNetImpl : torch::nn::Module {
  ClippedNetImpl() {
    first = register_module("first", make_linear(5, 7));
    unused = register_module("unused", make_linear(3, 3));
    last = register_module("last", make_linear(7, 3));
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, unused{nullptr}, last{nullptr};
};
TORCH_MODULE(ClippedNet);

// Which parameters a call lists.
struct ClippedList {
  const char* name;
  std::function<std::vector<at::Tensor>(const ClippedNet&)> of;
};

std::vector<ClippedList> clipped_lists() {
  return {{"all", [](const ClippedNet& net) { return net->parameters(); }},
          {"a part", [](const ClippedNet& net) { return std::vector<at::Tensor>{net->last->bias}; }},
          {"without gradients", [](const ClippedNet& net) { return net->unused->parameters(); }},
          {"one twice",
           [](const ClippedNet& net) {
             auto list = net->parameters();
             list.push_back(net->first->weight);
             return list;
           }},
          {"all thrice", [](const ClippedNet& net) {
             auto list = net->parameters();
             for (int i = 0; i < 2; ++i) {
               for (const at::Tensor& parameter : net->parameters()) list.push_back(parameter);
             }
             return list;
           }}};
}

struct Clipped {
  double norm = 0;
  std::vector<at::Tensor> weights;
};

torch::Tensor clipped_batch(int rank, int step) {
  return torch::sin(torch::arange(1, 11, torch::kDouble) * (rank + 1) + step).view({2, 5});
}

// @param how  null: LibTorch clips the averages
Clipped clip_once(const Group& group, const FuseOptions* how, const ClippedList& list, double max_norm, double order) {
  const ClippedNet net;
  const bool is_one_bucket = how != nullptr && how->stage == 1;
  DistributedDataParallelOptions options = is_one_bucket ? fuse_on(group) : buckets_of_a_parameter(group);
  DistributedDataParallel ddp(net, options);
  SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  if (how != nullptr) {
    EXPECT_NE(ddp.fuse(optimizer, *how).mode(), FuseMode::Off) << ddp.fused_step().reason();
  }
  Clipped result;
  for (int step = 0; step < 2; ++step) {
    ddp(clipped_batch(group->rank(), step)).pow(2).sum().backward();
    result.norm = how == nullptr ? torch::nn::utils::clip_grad_norm_(list.of(net), max_norm, order)
                                 : clip_grad_norm_(list.of(net), max_norm, order);
    optimizer.step();
    optimizer.zero_grad();
  }
  result.weights = gathered_weights(ddp);
  return result;
}

void expect_equal_clipping(const Clipped& got, const Clipped& want, double order, const std::string& text) {
  EXPECT_NEAR(got.norm, want.norm, 1e-12 * want.norm) << text;
  const double bound = order == 0 ? 1e-8 : 1e-12;  // LibTorch's factor of order 0 is a number in fp32
  for (std::size_t i = 0; i < want.weights.size(); ++i) {
    EXPECT_LE((got.weights[i] - want.weights[i]).abs().max().item<double>(), bound) << text << ", weights " << i;
  }
}

std::vector<FuseOptions> clipped_stages() {
  std::vector<FuseOptions> stages(4);
  stages[1].share_weights = false;
  stages[2].stage = 2;
  stages[3].stage = 3;
  stages[3].share_weights = false;
  return stages;
}

class ClipKinds : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, ClipKinds, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, ClipKinds, ::testing::Values("shm", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ClipKinds, EqualLibTorchOnAverages) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    int combination = 0;  // 45 take ten seconds; in the suite each order has one list or two
    for (const double order : {2.0, 1.0, 3.0, 0.5, 0.0, kInfinity, -kInfinity, -1.0, -2.0}) {
      for (const ClippedList& list : clipped_lists()) {
        if (combination++ % test_size(3, 1) != 0) continue;
        const double max_norm = order < 0 ? 1e-4 : 0.3;
        const Clipped want = clip_once(group, nullptr, list, max_norm, order);
        for (const FuseOptions& how : clipped_stages()) {
          const Clipped got = clip_once(group, &how, list, max_norm, order);
          expect_equal_clipping(
              got, want, order,
              fmt::format("order {}, {}, stage {}, shared {}", order, list.name, how.stage, how.share_weights));
        }
      }
    }
  });
}

TEST(ClipArguments, ThatTurnGradientsAroundAreNamed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    ddp.fuse(optimizer);
    ddp(fuse_batch(0, 0, 20)).sum().backward();
    const auto clip_error = [&](double max_norm, double norm_type) {
      return fuse_error([&] { clip_grad_norm_(model->parameters(), max_norm, norm_type); });
    };
    EXPECT_NE(clip_error(NAN, 2).find("max_norm is nan"), std::string::npos);
    EXPECT_NE(clip_error(-1, 2).find("max_norm is -1"), std::string::npos);
    EXPECT_NE(clip_error(1, NAN).find("norm_type is NaN"), std::string::npos);
    for (const double max_norm : {-0.5, static_cast<double>(NAN)}) {
      StepOptions options;
      options.max_norm = max_norm;
      EXPECT_NE(fuse_error([&] { optimizer.step_with(options); }).find("max_norm is"), std::string::npos);
    }
    clip_grad_norm_(model->parameters(), 1);
    optimizer.step();
  });
}

}  // namespace
}  // namespace lockstep
