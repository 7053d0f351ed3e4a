// Tests that rows nobody reads are left out without another result: values and gradients against all rows computed.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/encoder_models.h"
#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/attention_function.h"
#include "lockstep/models/layers/token_rows.h"

namespace lockstep {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

double largest_gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

Tensor mask_of(const std::vector<std::vector<int>>& rows) {
  Tensor mask =
      torch::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())}, torch::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      mask[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)] = rows[i][j];
    }
  }
  return mask;
}

const std::vector<std::vector<int>> kThreeTexts{{1, 1, 1, 0, 0}, {1, 1, 1, 1, 1}, {1, 0, 1, 0, 0}};

TEST(TokenRows, AreThoseOfTheMask) {
  const auto rows = rows_of_tokens(mask_of(kThreeTexts));
  ASSERT_TRUE(rows);
  EXPECT_TRUE(torch::equal(rows->places, torch::tensor({0, 1, 2, 5, 6, 7, 8, 9, 10, 12}, torch::kLong)));
  EXPECT_EQ(rows->starts, (std::vector<std::int64_t>{0, 3, 8, 10}));
  EXPECT_TRUE(rows_of_tokens(mask_of(kThreeTexts).to(torch::kFloat)));
  EXPECT_TRUE(rows_of_tokens(mask_of(kThreeTexts).to(torch::kBool)));
}

TEST(TokenRows, ExistOnlyIfPaddingCanBeLeftOut) {
  EXPECT_FALSE(rows_of_tokens({}));
  EXPECT_FALSE(rows_of_tokens(mask_of({{1, 1}, {1, 1}}))) << "no padding";
  EXPECT_FALSE(rows_of_tokens(mask_of({{0, 1}, {1, 1}}))) << "padding on the left";
  EXPECT_FALSE(rows_of_tokens(mask_of({{0, 0}, {1, 1}}))) << "a text without tokens";
  EXPECT_FALSE(rows_of_tokens(mask_of({{1, 2}, {1, 0}}))) << "other numbers";
  EXPECT_FALSE(rows_of_tokens(torch::full({2, 2}, 0.5)));
}

// Parameters: texts of unequal lengths, dropout.
class TextAttention : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override {
    const auto [is_unequal, has_dropout] = GetParam();
    options_.size = 3;
    options_.length = 5;
    options_.heads = 2;
    options_.scale = 0.7;
    options_.dropout_p = has_dropout ? 0.4 : 0;
    if (is_unequal) options_.starts = {0, 3, 8, 10};
    rows_ = options_.first_row(3);
  }

  // Values, gradients, and gradients of gradients. `compute` gets leaves of these rows with 8 columns for each of q, k,
  // v.
  template <typename Compute>
  Tensors results(std::int64_t query_rows, const Compute& compute) const {
    torch::manual_seed(11);
    Tensors leaves;
    for (const std::int64_t rows : {query_rows, rows_, rows_}) {
      leaves.push_back(torch::randn({rows, 8}, torch::kDouble).requires_grad_());
    }
    const Tensor weights = torch::randn({query_rows, 8}, torch::kDouble);
    torch::manual_seed(12);
    const Tensor out = compute(leaves[0], leaves[1], leaves[2]);
    Tensors all{out};
    for (const Tensor& g : torch::autograd::grad({(out * weights).sum()}, leaves, {}, true)) all.push_back(g);
    Tensor squares = torch::zeros({}, torch::kDouble);
    for (const Tensor& g : torch::autograd::grad({(out * weights).sum()}, leaves, {}, true, true)) {
      squares = squares + g.pow(2).sum();
    }
    for (const Tensor& g : torch::autograd::grad({squares}, leaves)) all.push_back(g);
    return all;
  }

  // The draw that the functions make of the same seed.
  std::optional<DropoutDraw> same_draw() const {
    return options_.dropout_p > 0 ? std::optional<DropoutDraw>(draw_dropout(options_.dropout_p)) : std::nullopt;
  }

  static void expect_near(const Tensors& got, const Tensors& want) {
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(largest_gap(got[i], want[i]), 1e-11) << i;
  }

  AttentionOptions options_;
  std::int64_t rows_ = 0;
};

TEST_P(TextAttention, OfAllTokensIsThatOfEachTextAlone) {
  expect_near(results(rows_,
                      [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                        return packed_attention(torch::cat({q, k, v}, 1), options_);
                      }),
              results(rows_, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                return composed_attention_by_text(q, k, v, options_, same_draw());
              }));
}

TEST_P(TextAttention, OfFirstTokensIsThatOfEachTextAlone) {
  expect_near(results(3, [&](const Tensor& q, const Tensor& k,
                             const Tensor& v) { return first_token_attention(q, k, v, options_); }),
              results(3, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                return composed_attention_by_text(q, k, v, options_, same_draw());
              }));
}

TEST_P(TextAttention, OfFirstTokensIsThatOfAllTokens) {
  options_.dropout_p = 0;  // a draw of fewer probabilities drops others
  Tensor first_rows = torch::zeros({3}, torch::kLong);
  for (std::int64_t i = 0; i < 3; ++i) first_rows[i] = options_.first_row(i);
  expect_near(results(rows_,
                      [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                        return torch::zeros_like(q).index_copy(
                            0, first_rows, first_token_attention(q.index_select(0, first_rows), k, v, options_));
                      }),
              results(rows_, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                const Tensor all = packed_attention(torch::cat({q, k, v}, 1), options_);
                return torch::zeros_like(q).index_copy(0, first_rows, all.index_select(0, first_rows));
              }));
}

INSTANTIATE_TEST_SUITE_P(Options, TextAttention, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

template <typename Config>
Config small_encoder() {
  Config config;
  config.vocab_size = 13;
  config.hidden_size = 12;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 2;
  config.intermediate_size = 20;
  config.max_position_embeddings = 9;
  config.initializer_range = 0.3;
  return config;
}

TokenInputs three_texts(const Tensor& mask) {
  TokenInputs inputs;
  inputs.input_ids = torch::randint(2, 13, {3, 5}, torch::kLong);
  inputs.attention_mask = mask;
  return inputs;
}

// Returns the promised rows of the last hidden state, those of padding set to 0, and the gradients of all parameters.
template <typename Network>
Tensors rows_and_gradients(Network& network, const TokenInputs& inputs, HiddenRows promised, HiddenRows asked) {
  const BertOutput output = network.forward(inputs, asked);
  Tensor hidden = output.last_hidden_state;
  if (promised == HiddenRows::First) {
    hidden = hidden.narrow(1, 0, 1);
  } else if (inputs.attention_mask.defined()) {
    hidden = hidden * inputs.attention_mask.unsqueeze(2);
  }
  torch::manual_seed(21);
  const Tensor weights = torch::randn(hidden.sizes(), hidden.scalar_type());
  Tensors results{hidden.detach()};
  network.zero_grad();
  (hidden * weights).sum().backward();
  for (const auto& parameter : network.named_parameters()) {
    if (parameter.key().find("pooler") == std::string::npos) results.push_back(parameter.value().grad().clone());
  }
  return results;
}

struct PaddingCase {
  const char* name;
  std::vector<std::vector<int>> mask;
  bool leaves_rows_out;
};

const std::vector<PaddingCase> kPaddingCases{
    {"none", {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, false},
    {"right", {{1, 1, 1, 0, 0}, {1, 1, 1, 1, 1}, {1, 1, 0, 0, 0}}, true},
    {"holes", kThreeTexts, true},
    {"one token each", {{1, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {1, 0, 0, 0, 0}}, true},
    {"left", {{0, 0, 1, 1, 1}, {1, 1, 1, 1, 1}, {0, 1, 1, 1, 1}}, false},
    {"no token", {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, false}};

template <typename Network, typename Config>
void expect_skipped_rows_to_change_nothing(bool can_skip) {
  for (const bool checkpoints : {false, true}) {
    Config config = small_encoder<Config>();
    config.gradient_checkpointing = checkpoints;
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
    torch::manual_seed(20);
    Network network(config);
    network.train();
    network.to(torch::kDouble);
    for (const PaddingCase& padding : kPaddingCases) {
      const TokenInputs inputs = three_texts(mask_of(padding.mask));
      for (const HiddenRows rows : {HiddenRows::Tokens, HiddenRows::First}) {
        SCOPED_TRACE(std::string(padding.name) + (rows == HiddenRows::First ? ", first" : ", tokens") +
                     (checkpoints ? ", checkpointed" : ""));
        const Tensors want = rows_and_gradients(network, inputs, rows, HiddenRows::All);
        const Tensors got = rows_and_gradients(network, inputs, rows, rows);
        for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(largest_gap(got[i], want[i]), 1e-11) << i;
      }
      const Tensor tokens = network.forward(inputs, HiddenRows::Tokens).last_hidden_state;
      const bool has_zeros =
          (tokens * (1 - inputs.attention_mask).unsqueeze(2)).abs().sum().template item<double>() == 0;
      EXPECT_EQ(has_zeros, can_skip && padding.leaves_rows_out ? true : inputs.attention_mask.all().item<bool>())
          << padding.name;
    }
  }
}

TEST(SkippedRows, ChangeNothingForBert) { expect_skipped_rows_to_change_nothing<BertModelImpl, BertConfig>(true); }
TEST(SkippedRows, ChangeNothingForRoberta) {
  expect_skipped_rows_to_change_nothing<RobertaModelImpl, RobertaConfig>(true);
}
TEST(SkippedRows, ChangeNothingForDistilBert) {
  expect_skipped_rows_to_change_nothing<DistilBertModelImpl, DistilBertConfig>(true);
}
TEST(SkippedRows, ChangeNothingForElectra) {
  expect_skipped_rows_to_change_nothing<ElectraModelImpl, ElectraConfig>(true);
}
TEST(SkippedRows, AreComputedForMPNetWhoseScoresHaveABias) {
  expect_skipped_rows_to_change_nothing<MPNetModelImpl, MPNetConfig>(false);
}

TEST(SkippedRows, AreNearAllRowsInBf16) {
  torch::manual_seed(22);
  BertModelImpl network(small_encoder<BertConfig>());
  network.eval();
  const TokenInputs inputs = three_texts(mask_of(kThreeTexts));
  const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
  for (const HiddenRows rows : {HiddenRows::Tokens, HiddenRows::First}) {
    const Tensors want = rows_and_gradients(network, inputs, rows, HiddenRows::All);
    const Tensors got = rows_and_gradients(network, inputs, rows, rows);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT(largest_gap(got[i], want[i]), 0.05 * want[i].abs().max().item<double>() + 0.02) << i;
    }
  }
}

TEST(SkippedRows, FollowTheDropoutOfTheGenerator) {
  torch::manual_seed(23);
  BertModelImpl network(small_encoder<BertConfig>());
  network.train();
  const TokenInputs inputs = three_texts(mask_of(kThreeTexts));
  const auto with_seed = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return network.forward(inputs, HiddenRows::First).pooler_output;
  };
  EXPECT_TRUE(torch::equal(with_seed(1), with_seed(1)));
  EXPECT_FALSE(torch::equal(with_seed(1), with_seed(2)));
}

}  // namespace
}  // namespace lockstep
