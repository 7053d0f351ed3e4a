#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/data/language_modeling_collator.h"
#include "lockstep/data/padding_collator.h"
#include "tests/data/text/small_tokenizers.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

at::Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }
at::Tensor table(const std::vector<std::int64_t>& values, std::int64_t width) {
  return longs(values).view({-1, width});
}

Example sample_of(const std::vector<std::int64_t>& ids) { return {{"input_ids", longs(ids)}}; }

TEST(PaddingCollator, PadsToTheLongestOfTheBatch) {
  const DataCollatorWithPadding collate(small_bert());
  Example a = sample_of({2, 5, 3});
  a["label"] = at::scalar_tensor(1, at::kLong);
  a["token_type_ids"] = longs({0, 1, 1});
  a["score"] = at::tensor({0.5, 1.5});
  Example b = sample_of({2, 3});
  b["labels"] = at::scalar_tensor(0, at::kLong);
  b["token_type_ids"] = longs({0, 1});
  b["score"] = at::tensor({2.5, 3.5});
  const Batch batch = collate({a, b});
  EXPECT_EQ(batch.size(), 5U);
  EXPECT_TRUE(batch.at("input_ids").equal(table({2, 5, 3, 2, 3, 0}, 3)));
  EXPECT_TRUE(batch.at("attention_mask").equal(table({1, 1, 1, 1, 1, 0}, 3)));
  EXPECT_TRUE(batch.at("token_type_ids").equal(table({0, 1, 1, 0, 1, 0}, 3)));
  EXPECT_TRUE(batch.at("labels").equal(longs({1, 0})));
  EXPECT_TRUE(batch.at("score").equal(at::tensor({0.5, 1.5, 2.5, 3.5}).view({2, 2})));
}

TEST(PaddingCollator, PadsOnTheLeftToMultiplesAndMaxLength) {
  Padding padding;
  padding.side = SequenceSide::Left;
  padding.multiple_of = 4;
  EXPECT_TRUE(DataCollatorWithPadding(small_bert(), padding)({sample_of({2, 5, 3}), sample_of({3})})
                  .at("input_ids")
                  .equal(table({0, 2, 5, 3, 0, 0, 0, 3}, 4)));
  padding.mode = PaddingMode::MaxLength;
  padding.max_length = 5;
  padding.multiple_of = 0;
  const Batch batch = DataCollatorWithPadding(small_bert(), padding)({sample_of({2, 5, 3})});
  EXPECT_TRUE(batch.at("input_ids").equal(table({0, 0, 2, 5, 3}, 5)));
  EXPECT_TRUE(batch.at("attention_mask").equal(table({0, 0, 1, 1, 1}, 5)));
  padding.multiple_of = 4;
  EXPECT_EQ(DataCollatorWithPadding(small_bert(), padding)({sample_of({3})}).at("input_ids").size(1), 8);
}

TEST(PaddingCollator, PadsLabelsOfTokensWithWhatDoesNotCount) {
  Example a = sample_of({5, 6});
  a["labels"] = longs({1, 2});
  Example b = sample_of({5});
  b["labels"] = longs({3});
  EXPECT_TRUE(DataCollatorWithPadding(small_bert())({a, b}).at("labels").equal(table({1, 2, 3, -100}, 2)));
}

TEST(PaddingCollator, RefusesWhatDoesNotFit) {
  const DataCollatorWithPadding collate(small_bert());
  expect_error("no samples", [&] { collate({}); });
  expect_error("no \"input_ids\"", [&] { collate({Example{{"text", longs({1})}}}); });
  Example odd = sample_of({1, 2});
  odd["token_type_ids"] = longs({1});
  expect_error("\"token_type_ids\" is Long [1], but there are 2 input_ids", [&] { collate({odd}); });
  expect_error("sample 1 of the batch", [&] { collate({sample_of({1, 2}), odd}); });
  Example both = sample_of({1});
  both["label"] = both["labels"] = at::scalar_tensor(1, at::kLong);
  expect_error("both \"labels\" and \"label\"", [&] { collate({both}); });
  Padding padding;
  padding.mode = PaddingMode::MaxLength;
  padding.max_length = 2;
  expect_error("3 tokens, but the batch has 2", [&] {
    DataCollatorWithPadding(small_bert(), padding)({sample_of({1, 2, 3})});
  });
  padding.max_length = -1;
  expect_error("max_length -1", [&] { DataCollatorWithPadding(small_bert(), padding); });
}

TEST(LanguageModelingCollator, CausalLabelsAreTheTokensButForPadding) {
  Example a = sample_of({5, 0, 6});  // a padding token counts if it is text
  a["labels"] = at::scalar_tensor(1, at::kLong);
  Example b = sample_of({7});
  b["labels"] = at::scalar_tensor(1, at::kLong);
  const Batch batch = DataCollatorForLanguageModeling(small_bert())({a, b});
  EXPECT_TRUE(batch.at("input_ids").equal(table({5, 0, 6, 7, 0, 0}, 3)));
  EXPECT_TRUE(batch.at("labels").equal(table({5, 0, 6, 7, -100, -100}, 3)));
}

class MaskedCollator : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLength = 2000;
  static LanguageModelingOptions options() {
    LanguageModelingOptions masked;
    masked.mlm = true;
    return masked;
  }
  static std::vector<Example> texts(std::int64_t count) {
    std::vector<Example> all;
    for (std::int64_t t = 0; t < count; ++t) {
      std::vector<std::int64_t> ids{2};
      for (std::int64_t i = 0; i < kLength; ++i) ids.push_back(5 + (i * 7 + t * t) % 19);  // no special token
      ids.push_back(3);
      all.push_back(sample_of(ids));
    }
    return all;
  }
};

TEST_F(MaskedCollator, MasksTheSharesOfTheArticle) {
  const DataCollatorForLanguageModeling collate(small_bert(), options());
  const std::vector<Example> samples = texts(50);
  const Batch batch = collate(samples);
  std::int64_t chosen = 0, masked = 0, kept = 0, replaced = 0;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const auto* before = samples[row].at("input_ids").data_ptr<std::int64_t>();
    const at::Tensor after_row = batch.at("input_ids")[row];
    const at::Tensor label_row = batch.at("labels")[row];
    const auto* after = after_row.data_ptr<std::int64_t>();
    const auto* label = label_row.data_ptr<std::int64_t>();
    EXPECT_EQ(label[0], -100);
    EXPECT_EQ(label[kLength + 1], -100);
    for (std::int64_t i = 0; i < kLength + 2; ++i) {
      if (label[i] == -100) {
        ASSERT_EQ(after[i], before[i]);
        continue;
      }
      ASSERT_EQ(label[i], before[i]);
      ++chosen;
      if (after[i] == 4) ++masked;
      if (after[i] == before[i]) ++kept;
      if (after[i] != 4 && after[i] != before[i]) ++replaced;
    }
  }
  // 100 000 tokens: standard deviations are 113 for chosen ones, and among 15 000 chosen ones 49 for 80 % and 37 for
  // 10 %. One in 24 of the 10 % random tokens is the token itself, and one in 24 the mask token.
  EXPECT_NEAR(chosen, 15000, 600);
  EXPECT_NEAR(masked, 0.8 * chosen + 0.1 * chosen / 24, 300);
  EXPECT_NEAR(kept, 0.1 * chosen + 0.1 * chosen / 24, 220);
  EXPECT_NEAR(replaced, 0.1 * chosen * 22 / 24, 220);
}

TEST_F(MaskedCollator, MasksFollowSeedEpochAndSampleAlone) {
  const DataCollatorForLanguageModeling collate(small_bert(), options());
  const auto samples = texts(3);
  const Batch all = collate(samples);
  Padding padding;
  padding.multiple_of = 4096;
  LanguageModelingOptions padded = options();
  padded.padding = padding;
  const Batch one = DataCollatorForLanguageModeling(small_bert(), padded)({samples[2]});
  EXPECT_TRUE(one.at("input_ids")[0].slice(0, 0, kLength + 2).equal(all.at("input_ids")[2]));
  EXPECT_FALSE(all.at("input_ids")[0].equal(all.at("input_ids")[2]));

  const DataCollatorForLanguageModeling copy = collate;
  copy.set_epoch(1);
  EXPECT_FALSE(collate(samples).at("labels").equal(all.at("labels")));
  copy.set_epoch(0);
  EXPECT_TRUE(collate(samples).at("labels").equal(all.at("labels")));
  LanguageModelingOptions seeded = options();
  seeded.seed = 1;
  EXPECT_FALSE(DataCollatorForLanguageModeling(small_bert(), seeded)(samples).at("labels").equal(all.at("labels")));
}

TEST_F(MaskedCollator, SpecialTokensOfTheSampleGoFirst) {
  LanguageModelingOptions everything = options();
  everything.mlm_probability = 1;
  everything.mask_probability = 1;
  everything.random_probability = 0;
  const DataCollatorForLanguageModeling collate(small_bert(), everything);
  EXPECT_TRUE(collate({sample_of({2, 5, 1, 6, 3})}).at("labels").equal(table({-100, 5, -100, 6, -100}, 5)));
  Example told = sample_of({2, 5, 1, 6, 3});
  told["special_tokens_mask"] = longs({1, 1, 0, 0, 0});
  const Batch batch = collate({told});
  EXPECT_TRUE(batch.at("labels").equal(table({-100, -100, 1, 6, 3}, 5)));
  EXPECT_TRUE(batch.at("input_ids").equal(table({2, 5, 4, 4, 4}, 5)));
  EXPECT_EQ(batch.count("special_tokens_mask"), 0U);
}

TEST_F(MaskedCollator, RefusesProbabilitiesThatAreNone) {
  LanguageModelingOptions bad = options();
  bad.mlm_probability = 1.5;
  expect_error("mlm_probability 1.5", [&] { DataCollatorForLanguageModeling(small_bert(), bad); });
  bad = options();
  bad.random_probability = 0.3;
  expect_error("random_probability 0.3", [&] { DataCollatorForLanguageModeling(small_bert(), bad); });
}

}  // namespace
}  // namespace lockstep
