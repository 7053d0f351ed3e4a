// Tests backwards that an exception cuts off, and backwards after the wrapper was destroyed.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <stdexcept>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

// Returns its input; its backward throws on request.
class Breaks : public torch::autograd::Function<Breaks> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input, bool breaks) {
    context->saved_data["breaks"] = breaks;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    if (context->saved_data["breaks"].toBool()) throw std::runtime_error("the middle of backward broke");
    return {grads[0], torch::Tensor()};
  }
};

struct CutNetImpl : torch::nn::Module {
  CutNetImpl() {
    for (const auto& [name, layer] : {std::pair("first", first), std::pair("second", second)}) {
      register_module(name, layer);
      const torch::NoGradGuard no_grad;
      layer->weight.fill_(1);
    }
  }
  torch::Tensor forward(const torch::Tensor& x, bool breaks) {
    return second->forward(Breaks::apply(first->forward(x), breaks));
  }
  Linear first{torch::nn::LinearOptions(1, 1).bias(false)}, second{torch::nn::LinearOptions(1, 1).bias(false)};
};
TORCH_MODULE(CutNet);

// One step; on rank 1 a first attempt is cut off.
void step_with_a_cut(const Group& group, double bucket_cap_mb, bool plain_model, float& gradient) {
  CutNet net;
  auto options = fuse_on(group);
  options.bucket_cap_mb = bucket_cap_mb;
  DistributedDataParallel ddp(net, options);
  if (plain_model) ddp.follow_backward();
  const torch::Tensor input = torch::full({1, 1}, group->rank() == 0 ? 2.0F : 6.0F);
  const auto backward = [&](bool breaks) {
    for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
    (plain_model ? net->forward(input, breaks) : ddp(input, breaks)).sum().backward();
  };
  if (group->rank() == 1) {
    EXPECT_THROW(backward(true), std::runtime_error);
  }
  backward(false);
  gradient = net->first->weight.grad().item<float>();
}

TEST(CutOffBackward, IsForgottenIfNothingWasSent) {
  for (const bool plain_model : {false, true}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      float gradient = 0;
      step_with_a_cut(group, 1, plain_model, gradient);
      EXPECT_FLOAT_EQ(gradient, 4.0F) << "plain model " << plain_model;
    });
  }
}

TEST(CutOffBackward, IsAnErrorIfOthersCountOnTheRest) {
  for (const bool plain_model : {false, true}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      float gradient = 0;
      const std::string text = fuse_error([&] { step_with_a_cut(group, 1e-6, plain_model, gradient); });
      EXPECT_NE(text.find("the previous backward ended early"), std::string::npos) << text;
    });
  }
}

TEST(CutOffBackward, OfAWrapperThatIsGoneIsAnError) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model(1, 1);
    std::optional<DistributedDataParallel<Linear>> ddp(std::in_place, model, fuse_on(group));
    const torch::Tensor loss = (*ddp)(torch::ones({1, 1})).sum();
    ddp.reset();
    const std::string text = fuse_error([&] { loss.backward(); });
    EXPECT_NE(text.find("keep the wrapper until backward has returned"), std::string::npos) << text;
    model->forward(torch::ones({1, 1})).sum().backward();  // the module itself still works
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 1.0F);
  });
}

}  // namespace
}  // namespace lockstep
