// Tests of fused steps of modules and programs that are odd: parameters without elements, views that are kept, a module
// that is registered twice, files of gathered weights.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kOddWidth = 12;

struct OddNetImpl : torch::nn::Module {
  OddNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) layers->push_back(make_linear(kOddWidth, kOddWidth));
  }
  torch::nn::LinearImpl& layer(std::size_t i) { return *layers[i]->as<torch::nn::LinearImpl>(); }
  torch::Tensor forward(torch::Tensor x) {
    for (std::size_t i = 0; i < layers->size(); ++i) x = torch::tanh(layer(i).forward(x));
    return empty.defined() ? x + empty.sum() : x;
  }
  torch::nn::ModuleList layers{nullptr};
  torch::Tensor empty;
};
TORCH_MODULE(OddNet);

// @param stage  0: not fused
struct OddSubject {
  OddSubject(const Group& group, int stage, OddNet net, double bucket_cap_mb = 1)
      : model(std::move(net)), ddp(model, with_cap(group, bucket_cap_mb)) {
    if (stage == 0) return;
    FuseOptions how;
    how.stage = stage;
    how.share_weights = stage < 3;
    mode = ddp.fuse(optimizer, how).mode();
  }
  static DistributedDataParallelOptions with_cap(const Group& group, double bucket_cap_mb) {
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = bucket_cap_mb;
    return options;
  }
  void step(int rank, int number) {
    optimizer.zero_grad();
    ddp(fuse_batch(rank, number, kOddWidth)).pow(2).mean().backward();
    optimizer.step();
  }
  at::Tensor weights() {
    ddp.fused_step().unshard();
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : model->parameters()) all.push_back(parameter.detach().flatten().clone());
    ddp.fused_step().reshard();
    return torch::cat(all);
  }

  OddNet model;
  DistributedDataParallel<OddNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
  FuseMode mode = FuseMode::Off;
};

class FuseOdd : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Stages, FuseOdd, ::testing::Values(1, 2, 3));

OddNet net_with_an_empty_parameter() {
  OddNet net;
  net->empty = net->register_parameter("empty", torch::zeros({0, 4}));
  return net;
}

// One of them in a bucket of its own, and in a bucket of all parameters.
TEST_P(FuseOdd, ParametersWithoutElements) {
  for (const double bucket_cap_mb : {0.0001, 1.0}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      OddSubject fused(group, GetParam(), net_with_an_empty_parameter(), bucket_cap_mb);
      OddSubject plain(group, 0, net_with_an_empty_parameter(), bucket_cap_mb);
      EXPECT_NE(fused.mode, FuseMode::Off);
      for (OddSubject* each : {&fused, &plain}) {
        for (int step = 0; step < 3; ++step) each->step(group->rank(), step);
      }
      EXPECT_TRUE(torch::equal(fused.weights(), plain.weights()));
    });
  }
}

// LibTorch's parameters() lists a module twice that is registered twice, and its optimizers then update it twice.
TEST_P(FuseOdd, AModuleThatIsRegisteredTwiceIsNotFused) {
  fuse_ranks("thread", 2, [&](const Group& group) {
    const auto make = [] {
      OddNet net;
      net->layers->push_back(net->layers->ptr(0));
      return net;
    };
    OddSubject fused(group, GetParam(), make()), plain(group, 0, make());
    ASSERT_EQ(plain.model->parameters().size(), 8U);
    EXPECT_EQ(fused.mode, FuseMode::Off);
    EXPECT_NE(fused.ddp.fused_step().reason().find("\"layers.0.weight\" twice"), std::string::npos)
        << fused.ddp.fused_step().reason();
    for (OddSubject* each : {&fused, &plain}) each->step(group->rank(), 0);
    EXPECT_TRUE(torch::equal(fused.weights(), plain.weights()));
  });
}

TEST_P(FuseOdd, WarnsOfViewsThatAreKept) {
  for (const bool keeps : {true, false}) {
    ::testing::internal::CaptureStderr();
    fuse_ranks("thread", 2, [&](const Group& group) {
      OddNet net;
      std::vector<at::Tensor> kept;
      if (keeps) kept = {net->layer(1).weight.detach().t(), net->layer(2).weight.data()};
      OddSubject fused(group, GetParam(), net);
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("the memory of parameter \"layers.") != std::string::npos, keeps) << log;
    EXPECT_EQ(log.find("and of 1 more") != std::string::npos, keeps) << log;
  }
}

// torch::save writes whole storages.
TEST_P(FuseOdd, AFileOfGatheredWeightsHasTheSizeOfPlainOnes) {
  fuse_ranks("thread", 2, [&](const Group& group) {
    OddSubject fused(group, GetParam(), OddNet()), plain(group, 0, OddNet());
    std::vector<std::size_t> sizes;
    for (OddSubject* each : {&fused, &plain}) {
      each->step(group->rank(), 0);
      each->ddp.fused_step().unshard();
      std::ostringstream file;
      torch::save(each->model, file);
      sizes.push_back(file.str().size());
      each->ddp.fused_step().reshard();
    }
    EXPECT_LE(sizes[0], sizes[1] + 1024);
  });
}

// Elements of another type are counted by their bytes.
TEST(FuseOddStage3, AViewAsAnotherTypeBelongsToItsWeight) {
  fuse_ranks("thread", 2, [](const Group& group) {
    OddSubject it(group, 3, OddNet());
    it.step(group->rank(), 0);
    it.ddp.fused_step().unshard();
    const at::Tensor halves = it.model->layer(1).weight.detach().view(torch::kShort).slice(0, kOddWidth - 1);
    EXPECT_EQ(halves.sizes(), (std::vector<std::int64_t>{1, 2 * kOddWidth}));
    it.ddp.fused_step().reshard();
    EXPECT_NE(fuse_error([&] { halves.sum(); }).find("\"layers.1.weight\""), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
