// Tests lockstep::verify on modules and losses of a program's own.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/train/verify.h"

namespace lockstep {
namespace {

struct VerifiedNetImpl : torch::nn::Cloneable<VerifiedNetImpl> {
  VerifiedNetImpl() { reset(); }
  void reset() override {
    hidden = register_module("hidden", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    scores = register_module("scores", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return scores(torch::dropout(torch::tanh(norm(hidden(x))), 0.5, is_training()));
  }
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear scores{nullptr};
};
TORCH_MODULE(VerifiedNet);

Batch rows_to_verify(std::int64_t rows) {
  return {{"x", torch::randn({rows, 4})}, {"labels", torch::randint(3, {rows}, torch::kLong)}};
}

const auto kMeanLoss = [](auto& net, const Batch& part) {
  return torch::cross_entropy_loss(net(part.at("x")), part.at("labels"));
};

VerifyOptions three_ranks(double tolerance = 1e-5) {
  VerifyOptions options;
  options.ranks = 3;
  options.tolerance = tolerance;
  return options;
}

TEST(VerifyLibrary, FindsRanksEqualAndLeavesTheModuleAlone) {
  VerifiedNet net;
  net->to(torch::kDouble);
  Batch batch = rows_to_verify(11);
  batch["x"] = batch["x"].to(torch::kDouble);
  const torch::Tensor before = net->hidden->weight.detach().clone();
  const Verification result = verify(net, batch, kMeanLoss, three_ranks(1e-12));
  EXPECT_TRUE(result.is_equal()) << result.text();
  ASSERT_EQ(result.tensors.size(), 6U);
  EXPECT_EQ(result.tensors[0].name, "hidden.weight");
  EXPECT_EQ(result.tensors[0].shape, "[8, 4]");
  EXPECT_NE(result.text().find(": equal"), std::string::npos);
  EXPECT_TRUE(torch::equal(before, net->hidden->weight));
  EXPECT_FALSE(net->hidden->weight.grad().defined());
  EXPECT_TRUE(net->is_training());
}

TEST(VerifyLibrary, CountsWhatALossLeavesOut) {
  const VerifiedNet net;
  Batch batch = rows_to_verify(9);
  batch["labels"].slice(0, 0, 3).fill_(-100);  // all rows of rank 0
  const auto ignoring = [](auto& each, const Batch& part) {
    const torch::Tensor labels = part.at("labels");
    return LossSum{torch::cross_entropy_loss(each(part.at("x")), labels, {}, at::Reduction::Sum),
                   labels.ne(-100).sum()};
  };
  EXPECT_TRUE(verify(net, batch, ignoring, three_ranks()).is_equal());
  batch["labels"].slice(0, 0, 3).fill_(1);
  batch["labels"].slice(0, 4, 5).fill_(-100);  // a mean over the rest is not a mean over the rows
  EXPECT_FALSE(verify(net, batch, kMeanLoss, three_ranks()).is_equal());
}

TEST(VerifyLibrary, FindsALossThatLooksAtTheWholeBatch) {
  const auto centred = [](auto& net, const Batch& part) {
    const torch::Tensor out = net(part.at("x"));
    return (out - out.mean(0, true)).square().mean();
  };
  const Verification result = verify(VerifiedNet(), rows_to_verify(12), centred, three_ranks());
  EXPECT_FALSE(result.is_equal());
  EXPECT_NE(result.text().find("NOT EQUAL"), std::string::npos);
}

TEST(VerifyLibrary, RefusesBatchesThatCannotBeCut) {
  const auto error_of = [](const Batch& batch) -> std::string {
    try {
      verify(VerifiedNet(), batch, kMeanLoss, three_ranks());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of(rows_to_verify(2)).find("2 samples cannot be cut into 3 parts"), std::string::npos);
  EXPECT_NE(error_of({}).find("the batch has no tensors"), std::string::npos);
  Batch uneven = rows_to_verify(6);
  uneven["x"] = uneven["x"].slice(0, 0, 5);
  EXPECT_NE(error_of(uneven).find("\"x\" has the shape [5, 4], and \"labels\" has 6 rows"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
