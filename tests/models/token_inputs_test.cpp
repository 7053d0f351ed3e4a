#include "lockstep/detail/models/token_inputs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/sequence_head.h"
#include "lockstep/models/gpt2.h"

namespace lockstep {
namespace {

constexpr TokenLimits kLimits{10, 4, 2};

std::string refusal(const TokenInputs& inputs) {
  try {
    check_token_inputs(inputs, kLimits, "model");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

torch::Tensor row(std::initializer_list<std::int64_t> ids) {
  return torch::tensor(at::IntArrayRef(ids), torch::kLong).unsqueeze(0);
}

struct BadInput {
  const char* name;
  std::function<TokenInputs()> make;
  std::vector<std::string> says;
};

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, SayWhichFieldRowAndColumn) {
  const std::string text = refusal(GetParam().make());
  for (const std::string& part : GetParam().says) EXPECT_NE(text.find(part), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadInputs,
    ::testing::Values(BadInput{"none", [] { return TokenInputs{}; }, {"no input_ids"}},
                      BadInput{"flat", [] { return TokenInputs{torch::zeros({3}, torch::kLong)}; }, {"1 dimensions"}},
                      BadInput{"floats",
                               [] {
                                 return TokenInputs{torch::zeros({1, 3})};
                               },
                               {"Float, not int64"}},
                      BadInput{"outside_the_vocabulary",
                               [] {
                                 return TokenInputs{torch::tensor({{1, 2}, {3, 10}}, torch::kLong)};
                               },
                               {"id 10 in row 1, column 1", "0 to 9", "tokenizer"}},
                      BadInput{"negative",
                               [] {
                                 return TokenInputs{row({1, -1})};
                               },
                               {"id -1 in row 0, column 1"}},
                      BadInput{"too_long",
                               [] {
                                 return TokenInputs{row({1, 1, 1, 1, 1})};
                               },
                               {"5 tokens", "4 positions"}},
                      BadInput{"empty",
                               [] {
                                 return TokenInputs{torch::zeros({2, 0}, torch::kLong)};
                               },
                               {"no tokens"}},
                      BadInput{"mask_shape",
                               [] {
                                 return TokenInputs{row({1, 2}), torch::ones({1, 3})};
                               },
                               {"attention_mask of shape [1, 3]", "[1, 2]"}},
                      BadInput{"segment",
                               [] {
                                 return TokenInputs{row({1, 2}), {}, row({0, 2})};
                               },
                               {"token_type_ids", "id 2"}},
                      BadInput{"position",
                               [] {
                                 return TokenInputs{row({1, 2}), {}, {}, row({0, 4})};
                               },
                               {"position_ids", "id 4"}}),
    [](const auto& test) { return test.param.name; });

TEST(TokenInputs, AcceptsWhatFits) {
  EXPECT_EQ(refusal({row({0, 9, 1, 2}), torch::ones({1, 4}), row({0, 1, 1, 0}), row({0, 1, 2, 3})}), "");
  EXPECT_EQ(refusal({torch::zeros({3, 2}, torch::kLong), {}, {}, row({0, 1})}), "") << "positions for all texts";
}

TEST(TokenInputs, MasksAddTheLowestNumberWhereThereIsPadding) {
  EXPECT_FALSE(additive_mask({}, torch::kFloat).defined());
  EXPECT_FALSE(additive_mask(torch::ones({2, 3}, torch::kLong), torch::kFloat).defined());
  const torch::Tensor mask = additive_mask(torch::tensor({{1, 0}}), torch::kFloat);
  EXPECT_EQ(mask.sizes(), torch::IntArrayRef({1, 1, 1, 2}));
  EXPECT_EQ(mask.flatten()[0].item<float>(), 0);
  EXPECT_EQ(mask.flatten()[1].item<float>(), std::numeric_limits<float>::lowest());
  for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kDouble}) {
    const torch::Tensor lowest = additive_mask(torch::tensor({{0}}), dtype);
    EXPECT_TRUE(lowest.isfinite().all().item<bool>()) << dtype;
    EXPECT_FALSE((lowest * 1.01).isfinite().any().item<bool>()) << dtype << ": not the lowest";
  }
}

TEST(TokenInputs, PositionsCountTheTokensOfAMask) {
  const torch::Tensor mask = torch::tensor({{0, 0, 1, 1}, {1, 1, 0, 0}, {1, 1, 1, 1}});
  const torch::Tensor want = torch::tensor({{1, 1, 0, 1}, {0, 1, 1, 1}, {0, 1, 2, 3}}, torch::kLong);
  EXPECT_TRUE(torch::equal(position_ids_of_mask(mask), want));
}

GPT2Config token_gpt2() {
  GPT2Config config;
  config.vocab_size = 12;
  config.n_embd = 8;
  config.n_layer = 1;
  config.n_head = 2;
  config.n_positions = 6;
  return config;
}

TEST(GPT2Classifier, ScoresTheLastTokenThatIsNotPadding) {
  GPT2Config config = token_gpt2();
  config.pad_token_id = 11;
  GPT2ForSequenceClassification model(config);
  model->eval();
  const torch::Tensor alone = model->forward({row({4, 5, 6})});
  const torch::Tensor right = model->forward({row({4, 5, 6, 11, 11}), row({1, 1, 1, 0, 0})});
  const torch::Tensor left =
      model->forward({row({11, 11, 4, 5, 6}), row({0, 0, 1, 1, 1}), {}, position_ids_of_mask(row({0, 0, 1, 1, 1}))});
  EXPECT_TRUE(torch::allclose(alone, right, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(alone, left, 1e-5, 1e-6));
}

TEST(GPT2Classifier, NeedsAPaddingTokenForSeveralTexts) {
  GPT2ForSequenceClassification model(token_gpt2());
  model->eval();
  EXPECT_NO_THROW(model->forward({row({4, 5})}));
  try {
    model->forward({torch::ones({2, 3}, torch::kLong)});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.where().find("pad_token_id"), std::string::npos) << error.what();
  }
}

TEST(GPT2Lm, LossCountsThePredictedTokensOnly) {
  GPT2LMHeadModel model(token_gpt2());
  Batch batch{{"input_ids", torch::tensor({{1, 2, 3, 11}, {4, 5, 11, 11}}, torch::kLong)},
              {"attention_mask", torch::tensor({{1, 1, 1, 0}, {1, 1, 0, 0}}, torch::kLong)},
              {"labels", torch::tensor({{1, 2, 3, -100}, {4, 5, -100, -100}}, torch::kLong)}};
  EXPECT_EQ(model->loss(static_cast<Model&>(*model).forward(batch), batch).count.item<std::int64_t>(), 3);
  batch["labels"] = torch::full({2, 4}, 12, torch::kLong);
  EXPECT_THROW(model->loss(static_cast<Model&>(*model).forward(batch), batch), Error);
}

TEST(SequenceLoss, TakesEveryKindOfLabels) {
  const SequenceHead three{{"a", "b", "c"}, {}};
  const torch::Tensor scores = torch::tensor({{1.f, 2.f, 3.f}, {0.f, 0.f, 0.f}});
  const LossSum single = sequence_loss(three, scores, torch::tensor({0, 2}, torch::kLong), "m");
  EXPECT_NEAR(single.sum.item<double>(), 2.407606 + 1.098612, 1e-5);  // -log softmax
  EXPECT_EQ(single.count.item<std::int64_t>(), 2);
  const LossSum multi = sequence_loss(three, scores, torch::tensor({{0.f, 1.f, 1.f}, {1.f, 0.f, 1.f}}), "m");
  EXPECT_NEAR(multi.sum.item<double>(), 1.313262 + 0.126928 + 0.048587 + 3 * 0.693147, 1e-5);
  EXPECT_EQ(multi.count.item<std::int64_t>(), 6);
  const SequenceHead one{{"a"}, {}};
  const LossSum squared = sequence_loss(one, torch::tensor({{1.f}, {3.f}}), torch::tensor({0.f, 1.f}), "m");
  EXPECT_EQ(squared.sum.item<double>(), 5);
  EXPECT_EQ(squared.count.item<std::int64_t>(), 2);
  EXPECT_THROW(sequence_loss(three, scores, torch::tensor({3, 0}, torch::kLong), "m"), Error);
  EXPECT_THROW(sequence_loss(three, scores, torch::zeros({2, 2}), "m"), Error);
  EXPECT_THROW(sequence_loss(three, scores, torch::tensor({0}, torch::kLong), "m"), Error);
}

}  // namespace
}  // namespace lockstep
