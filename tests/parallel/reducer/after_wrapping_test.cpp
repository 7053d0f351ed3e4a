// Tests changes of a module's parameters after wrapping that are followed: the result is that of one process.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <sstream>

#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/reducer/wrapped_net.h"

namespace lockstep {
namespace {

using after_wrapping::batch_of;
using after_wrapping::kReplicas;
using after_wrapping::loss_of_output;
using after_wrapping::other_weights;
using after_wrapping::WrappedNet;
using torch::nn::Linear;

constexpr int kTrainingSteps = 6, kMovedAt = 3, kMicroBatches = 2;

std::string file_of_other_weights() {
  WrappedNet net;
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) parameter.copy_(other_weights(parameter));
  }
  std::ostringstream file;
  torch::save(net, file);
  return file.str();
}

// A way of giving parameters other memory, and its effect on values.
struct Move {
  const char* name;
  std::function<void(WrappedNet&)> make;
  std::function<void(WrappedNet&)> values;
};

void copy_each(WrappedNet& net, const std::function<torch::Tensor(const torch::Tensor&)>& change) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : net->parameters()) parameter.copy_(change(parameter.detach().clone()));
}

std::vector<Move> moves() {
  const auto others = [](WrappedNet& net) { copy_each(net, other_weights); };
  return {{"torch::load",
           [](WrappedNet& net) {
             static const std::string file = file_of_other_weights();
             std::istringstream stream(file);
             torch::load(net, stream);
           },
           others},
          {"set_ of one",
           [](WrappedNet& net) {
             const torch::NoGradGuard no_grad;
             net->head->weight.set_(other_weights(net->head->weight));
           },
           [](WrappedNet& net) {
             const torch::NoGradGuard no_grad;
             net->head->weight.copy_(other_weights(net->head->weight));
           }},
          {"set_data",
           [](WrappedNet& net) {
             for (auto& parameter : net->parameters()) parameter.set_data(other_weights(parameter));
           },
           others},
          {"to and back",
           [](WrappedNet& net) {
             net->to(torch::kFloat);
             net->to(torch::kDouble);
           },
           [](WrappedNet& net) {
             copy_each(net, [](const torch::Tensor& value) { return value.to(torch::kFloat).to(torch::kDouble); });
           }}};
}

enum class Path { Forward, PlainModel, StaticGraph, NoSync, TwoWrappers, Hook };

torch::optim::SGD optimizer_of(WrappedNet& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

// One process, without Lockstep.
std::vector<torch::Tensor> one_process(const Move& move, int micro_batches) {
  WrappedNet net;
  auto optimizer = optimizer_of(net);
  for (int step = 0; step < kTrainingSteps; ++step) {
    if (step == kMovedAt) move.values(net);
    optimizer.zero_grad();
    for (int rank = 0; rank < kReplicas; ++rank) {
      for (int micro = 0; micro < micro_batches; ++micro) {
        (loss_of_output(net->forward(batch_of(rank, step, micro))) / kReplicas).backward();
      }
    }
    optimizer.step();
  }
  return net->parameters();
}

std::vector<torch::Tensor> replica_of(const Group& group, Path path, const Move& move) {
  WrappedNet net;
  auto options = fuse_on(group);
  options.static_graph = path == Path::StaticGraph;
  options.bucket_cap_mb = 0.0002;  // several buckets
  DistributedDataParallel ddp(net, options);
  std::optional<DistributedDataParallel<WrappedNet>> second;
  if (path == Path::TwoWrappers) second.emplace(net, options);
  if (path == Path::PlainModel) ddp.follow_backward();
  if (path == Path::Hook) ddp.register_comm_hook(allreduce_hook());
  auto optimizer = optimizer_of(net);
  for (int step = 0; step < kTrainingSteps; ++step) {
    if (step == kMovedAt) move.make(net);
    optimizer.zero_grad();
    auto& wrapper = second && step % 2 == 1 ? *second : ddp;
    if (path == Path::NoSync) {
      const auto quiet = ddp.no_sync();
      loss_of_output(ddp(batch_of(group->rank(), step, 1))).backward();
    }
    const torch::Tensor input = batch_of(group->rank(), step, 0);
    loss_of_output(path == Path::PlainModel ? net->forward(input) : wrapper(input)).backward();
    EXPECT_GT(wrapper.last_step().buckets, 1U);
    optimizer.step();
  }
  return net->parameters();
}

void expect_same_weights(const std::vector<torch::Tensor>& got, const std::vector<torch::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT((got[i] - want[i]).abs().max().item<double>(), 1e-12) << "parameter " << i;
  }
}

class AfterWrapping : public ::testing::TestWithParam<Path> {};

TEST_P(AfterWrapping, NewMemoryIsFollowed) {
  for (const Move& move : moves()) {
    SCOPED_TRACE(move.name);
    const auto want = one_process(move, GetParam() == Path::NoSync ? kMicroBatches : 1);
    fuse_ranks("thread", kReplicas,
               [&](const Group& group) { expect_same_weights(replica_of(group, GetParam(), move), want); });
  }
}

std::string name_of_path(const ::testing::TestParamInfo<Path>& test) {
  const char* const names[] = {"forward", "plain_model", "static_graph", "no_sync", "two_wrappers", "hook"};
  return names[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Paths, AfterWrapping,
                         ::testing::Values(Path::Forward, Path::PlainModel, Path::StaticGraph, Path::NoSync,
                                           Path::TwoWrappers, Path::Hook),
                         name_of_path);

TEST(AfterWrappingOnce, NewMemoryIsFollowedByOtherEngines) {
  for (const char* engine : {"shm", "gloo"}) {
    SCOPED_TRACE(engine);
    fuse_ranks(engine, kReplicas, [](const Group& group) {
      const Move move = moves().front();
      expect_same_weights(replica_of(group, Path::Forward, move), one_process(move, 1));
    });
  }
}

// A module with one parameter: in LibTorch 1 its own hook is called too late in the first backward after the change.
TEST(AfterWrappingOnce, PlainModelOfOneParameterIsFollowed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    DistributedDataParallel ddp(model, fuse_on(group));
    ddp.follow_backward();
    for (int step = 0; step < 3; ++step) {
      if (step == 1) {
        const torch::NoGradGuard no_grad;
        model->weight.set_(torch::full({1, 1}, 5.0F));
      }
      model->weight.mutable_grad().reset();
      model->forward(torch::full({1, 1}, group->rank() == 0 ? 2.0F : 6.0F)).sum().backward();
      EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 4.0F) << "step " << step;
    }
  });
}

// The ranks do not average gradients that torch::autograd::grad returns.
TEST(AfterWrappingOnce, PlainModelsCapturedGradientsStayHere) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    DistributedDataParallel ddp(model, fuse_on(group));
    ddp.follow_backward();
    const auto loss = [&] { return model->forward(torch::full({1, 1}, group->rank() == 0 ? 2.0F : 6.0F)).sum(); };
    model->weight.set_data(torch::full({1, 1}, 5.0, torch::kDouble));
    model->weight.set_data(torch::full({1, 1}, 5.0F));
    if (group->rank() == 0) {
      EXPECT_FLOAT_EQ(torch::autograd::grad({loss()}, {model->weight}).front().item<float>(), 2.0F);
    }
    loss().backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 4.0F);
  });
}

TEST(AfterWrappingOnce, NewMemoryOfTorchScriptIsFollowed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::jit::Module model("scripted");
    model.register_parameter("weight", torch::full({1}, 3.0, torch::requires_grad()), false);
    model.define("def forward(self, x):\n  return x * self.weight\n");
    DistributedDataParallel ddp(model, fuse_on(group));
    for (int step = 0; step < 3; ++step) {
      torch::Tensor weight = model.attr("weight").toTensor();
      if (step == 1) {
        const torch::NoGradGuard no_grad;
        weight.set_(torch::full({1}, 7.0F));
      }
      weight.mutable_grad().reset();
      const torch::Tensor output = ddp(torch::full({1}, group->rank() == 0 ? 2.0F : 6.0F)).toTensor();
      EXPECT_FLOAT_EQ(output.item<float>(), (step == 0 ? 3.0F : 7.0F) * (group->rank() == 0 ? 2.0F : 6.0F));
      output.backward();
      EXPECT_FLOAT_EQ(weight.grad().item<float>(), 4.0F) << "step " << step;
    }
    model.setattr("weight", torch::full({1}, 3.0, torch::requires_grad()));
    const std::string text = fuse_error([&] { ddp(torch::ones({1})); });
    EXPECT_NE(text.find("parameter \"weight\" was replaced"), std::string::npos) << text;
  });
}

TEST(AfterWrappingOnce, PlainModelsGradientsStayInTheirBuckets) {
  fuse_ranks("thread", 1, [](const Group& group) {
    WrappedNet net;
    DistributedDataParallel ddp(net, fuse_on(group));
    ddp.follow_backward();
    net->forward(batch_of(0, 0, 0)).sum().backward();
    const torch::Tensor gradient = net->head->weight.grad();
    moves().front().make(net);
    net->forward(batch_of(0, 1, 0)).sum().backward();
    EXPECT_TRUE(gradient.is_same(net->head->weight.grad()));  // the bucket's view
  });
}

TEST(AfterWrappingOnce, NewMemoryOnOneRankAloneWithTheSameWeightsIsFollowed) {
  fuse_ranks("thread", 2, [&](const Group& group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, fuse_on(group));
    for (int step = 0; step < 3; ++step) {
      if (step == 1 && group->rank() == 0) {
        const torch::NoGradGuard no_grad;
        model->weight.set_(model->weight.detach().clone());
      }
      model->weight.mutable_grad().reset();
      ddp(torch::full({1, 1}, group->rank() == 0 ? 2.0F : 6.0F)).sum().backward();
      EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 4.0F) << "step " << step;
    }
  });
}

TEST(AfterWrappingOnce, FreezingAndThawingIsFollowed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, fuse_on(group));
    const auto step = [&] {
      for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
      ddp(torch::full({1, 1}, group->rank() == 0 ? 2.0F : 6.0F)).sum().backward();
    };
    model->weight.requires_grad_(false);
    {
      const torch::NoGradGuard no_grad;
      model->weight.set_(torch::full({1, 1}, 5.0F));
    }
    step();
    EXPECT_FALSE(model->weight.grad().defined());
    EXPECT_EQ(ddp.last_step().unused_parameters, 1U);
    model->weight.requires_grad_(true);
    step();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 4.0F);
  });
}

TEST(AfterWrappingOnce, StatisticsOfAnOldStepAreNotShownForANewOne) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model(1, 1);
    DistributedDataParallel ddp(model, fuse_on(group));
    const torch::Tensor input = torch::ones({1, 1}).requires_grad_(true);
    ddp(input).sum().backward();
    EXPECT_EQ(ddp.last_step().bytes, 128);
    {
      const auto quiet = ddp.no_sync();
      ddp(input).sum().backward();
    }
    EXPECT_EQ(ddp.last_step().bytes, 128);  // of the last synchronised step
    torch::autograd::grad({ddp(input).sum()}, {input});
    EXPECT_EQ(ddp.last_step().bytes, 0);
    EXPECT_EQ(ddp.last_step().buckets, 0U);
  });
}

}  // namespace
}  // namespace lockstep
