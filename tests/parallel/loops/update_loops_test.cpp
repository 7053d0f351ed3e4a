// Tests how programs of LibTorch update weights: several optimizers, groups, updates and clipping by hand. Two ranks
// must end with the weights of one process over all samples, without fuse and in every stage in which the page allows
// it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "tests/parallel/loops/loop_run.h"

namespace lockstep {
namespace {

// As plain_loop, with `edit` between backward and the step.
at::Tensor edited_loop(const LoopRun& run, const std::function<void(torch::nn::Sequential&)>& edit) {
  return plain_loop(run, [&](LoopNet& net, const LoopRun& it, int step) {
    net.mean_loss(it, step).backward();
    const torch::NoGradGuard no_grad;
    edit(net.module());
  });
}

// Two groups with options of their own, one of which comes in the third step.
at::Tensor with_groups(const LoopRun& run, bool is_late) {
  LoopNet net(run, loop_net());
  std::vector<at::Tensor> first, second;
  for (const at::Tensor& each : net.module()->parameters()) (each.dim() > 1 ? first : second).push_back(each);
  using ParamGroup = torch::optim::OptimizerParamGroup;
  const auto group = [](const std::vector<at::Tensor>& parameters, double lr, double decay) {
    return ParamGroup(parameters,
                      std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(lr).weight_decay(decay)));
  };
  std::vector<ParamGroup> groups{group(first, 0.01, 0.3)};
  if (!is_late) groups.push_back(group(second, 0.05, 0));
  lockstep::AdamW optimizer(groups, torch::optim::AdamWOptions(0.02));
  net.fuse(optimizer);
  for (int step = 0; step < kLoopSteps; ++step) {
    if (is_late && step == 3) optimizer.add_param_group(group(second, 0.05, 0));
    net.module()->zero_grad();
    optimizer.zero_grad();
    net.mean_loss(run, step).backward();
    optimizer.step();
  }
  return net.end();
}

// A generator and a critic, whose steps take turns; one forward of the generator serves both.
at::Tensor of_two_networks(const LoopRun& run) {
  LoopNet generator(run, loop_net(4)), critic(run, loop_net());
  lockstep::Adam of_generator(generator.module()->parameters(), torch::optim::AdamOptions(0.01));
  lockstep::Adam of_critic(critic.module()->parameters(), torch::optim::AdamOptions(0.01));
  generator.fuse(of_generator);
  critic.fuse(of_critic);
  for (int step = 0; step < kLoopSteps; ++step) {
    const at::Tensor made = generator(run.inputs(step));
    of_critic.zero_grad();
    (critic(made.detach()).mean() - critic(run.inputs(step + 9)).mean()).backward();
    of_critic.step();
    of_generator.zero_grad();
    critic(made).mean().neg().backward();
    of_generator.step();
  }
  return torch::cat({generator.end(), critic.end()});
}

// The module does not know the weight that the program assigns to a member, so nobody trains it.
at::Tensor with_an_assigned_member(const LoopRun& run) {
  return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
    auto* const layer = net.module()->ptr<torch::nn::LinearImpl>(0).get();
    if (step == 3) layer->weight = layer->weight.detach().clone().requires_grad_(true);
    net.mean_loss(it, step).backward();
  });
}

at::Tensor sharpness_aware(const LoopRun& run) {
  return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
    net.mean_loss(it, step).backward();
    std::vector<at::Tensor> moves;
    {
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : net.module()->parameters()) {
        moves.push_back(0.05 * parameter.grad().clone());
        parameter.add_(moves.back());
      }
    }
    net.module()->zero_grad();
    net.mean_loss(it, step).backward();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < moves.size(); ++i) net.module()->parameters()[i].sub_(moves[i]);
  });
}

// LibTorch's own optimizer, schedule and clipping.
at::Tensor of_libtorch(const LoopRun& run) {
  LoopNet net(run, loop_net());
  torch::optim::RMSprop optimizer(net.module()->parameters(), torch::optim::RMSpropOptions(0.01));
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  for (int step = 0; step < kLoopSteps; ++step) {
    optimizer.zero_grad();
    net.mean_loss(run, step).backward();
    torch::nn::utils::clip_grad_norm_(net.module()->parameters(), 0.1);
    optimizer.step();
    schedule.step();
  }
  return net.end();
}

at::Tensor by_hand(const LoopRun& run, bool sets_data) {
  LoopNet net(run, loop_net());
  for (int step = 0; step < kLoopSteps; ++step) {
    net.module()->zero_grad();
    net.mean_loss(run, step).backward();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net.module()->parameters()) {
      if (sets_data) parameter.set_data(parameter.data() - 0.1 * parameter.grad());
      if (!sets_data) parameter.sub_(0.1 * parameter.grad());
    }
  }
  return net.end();
}

const std::vector<Loop> kUpdateLoops = {
    {"groups", LoopWay::Stage3, [](const LoopRun& run) { return with_groups(run, false); }},
    {"a_late_group", LoopWay::OneCopy, [](const LoopRun& run) { return with_groups(run, true); }},
    {"undefined_gradients", LoopWay::OwnCopies,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         if (step % 2 == 0) {
           for (at::Tensor& each : net.module()->parameters()) each.mutable_grad().reset();
         } else {
           net.module()->zero_grad();
         }
         net.mean_loss(it, step).backward();
       });
     }},
    {"two_networks", LoopWay::Stage3, of_two_networks},
    {"updates_by_hand", LoopWay::Unfused, [](const LoopRun& run) { return by_hand(run, false); }},
    {"updates_by_set_data", LoopWay::Unfused, [](const LoopRun& run) { return by_hand(run, true); }},
    {"an_assigned_member", LoopWay::OwnCopies, with_an_assigned_member},
    {"sharpness_aware", LoopWay::Unfused, sharpness_aware},
    {"libtorchs_optimizer", LoopWay::Unfused, of_libtorch},
    {"edited_gradients", LoopWay::OwnCopies,
     [](const LoopRun& run) {
       return edited_loop(run, [](torch::nn::Sequential& net) {
         for (at::Tensor& each : net->parameters()) each.mutable_grad().mul_(0.5).add_(0.01);
       });
     }},
    {"gradients_clipped_by_hand", LoopWay::Unfused,
     [](const LoopRun& run) {
       return edited_loop(run, [](torch::nn::Sequential& net) {
         double sum = 0;
         for (at::Tensor& each : net->parameters()) sum += each.grad().pow(2).sum().item<double>();
         for (at::Tensor& each : net->parameters()) each.mutable_grad().mul_(std::min(1.0, 0.1 / std::sqrt(sum)));
       });
     }},
    {"closures", LoopWay::Stage3,
     [](const LoopRun& run) {
       return sgd_loop(run, [](LoopNet& net, const LoopRun& it, SGD& optimizer, int step) {
         optimizer.step([&] {
           optimizer.zero_grad();
           const at::Tensor loss = net.mean_loss(it, step);
           loss.backward();
           return loss;
         });
       });
     }},
    {"weights_divided_before_forward", LoopWay::OwnCopies,
     [](const LoopRun& run) {
       return plain_loop(run, [](LoopNet& net, const LoopRun& it, int step) {
         {
           const torch::NoGradGuard no_grad;
           at::Tensor weight = net.module()->ptr(0)->parameters()[0];
           weight.div_(weight.norm());
         }
         net.mean_loss(it, step).backward();
       });
     }},
};

class LoopsOfUpdates : public ::testing::TestWithParam<Loop> {};

TEST_P(LoopsOfUpdates, MakeTheWeightsOfOneProcess) { expect_weights_of_one_process(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Table, LoopsOfUpdates, ::testing::ValuesIn(kUpdateLoops),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
