// Tests the bf16 copy that an update writes beside fp32 weights: its bits, for every instruction set, and what the
// update finds out about the copy that was there.
#include <c10/util/BFloat16.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {
namespace {

constexpr std::uint16_t kUntouched = 0x1234;

float from_word(std::uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// By LibTorch's own type, which is not what the kernels use.
std::uint16_t rounded(float value) { return c10::BFloat16(value).x; }

// Every pattern of 16 bits, below each of which are the lower bits at which rounding changes.
std::vector<float> all_roundings() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(from_word(high << 16 | low));
    }
  }
  return values;
}

TEST(RoundToBfloat16, RoundsEveryNumberToNearestEven) {
  const std::vector<float> values = all_roundings();
  std::vector<std::uint16_t> first;
  for (const InstructionSet level : available_instruction_sets()) {
    std::vector<std::uint16_t> copy(values.size(), kUntouched);
    EXPECT_TRUE(round_to_bfloat16(values.data(), copy.data(), 0, values.size(), level));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(from_word(static_cast<std::uint32_t>(copy[i]) << 16))) << i;
      } else {
        ASSERT_EQ(copy[i], rounded(values[i])) << i;
      }
    }
    if (first.empty()) first = copy;
    EXPECT_EQ(copy, first);  // of NaN too
    EXPECT_FALSE(round_to_bfloat16(values.data(), copy.data(), 0, values.size(), level));
  }
}

TEST(RoundToBfloat16, IsToEvenByHand) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7, and 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6.
  const std::vector<float> values{1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, 1.0F + 0x1.01p-8F, -0.0F, 3.4e38F};
  for (const InstructionSet level : available_instruction_sets()) {
    std::vector<std::uint16_t> copy(values.size());
    round_to_bfloat16(values.data(), copy.data(), 0, values.size(), level);
    EXPECT_EQ(copy, (std::vector<std::uint16_t>{0x3f80, 0x3f82, 0x3f81, 0x8000, 0x7f80}));
  }
}

TEST(RoundToBfloat16, TouchesItsElementsOnly) {
  const std::vector<float> values(70, 3.0F);
  for (const InstructionSet level : available_instruction_sets()) {
    for (const std::size_t end : {3, 4, 19, 20, 36, 70}) {
      std::vector<std::uint16_t> copy(values.size(), kUntouched);
      round_to_bfloat16(values.data(), copy.data(), 3, end, level);
      for (std::size_t i = 0; i < copy.size(); ++i) EXPECT_EQ(copy[i] != kUntouched, i >= 3 && i < end) << i;
    }
  }
}

enum class CopyRule { Sgd, Nesterov, Adam, AmsGradW };

/// Weights, their copy, and what an update of them needs.
struct CopiedWeights {
  explicit CopiedWeights(std::size_t n) : param(n), first(n, 0.1F), second(n, 0.2F), third(n, 0.3F), gradient(n) {
    for (std::size_t i = 0; i < n; ++i) {
      param[i] = std::sin(static_cast<float>(i) + 1);
      gradient[i] = std::cos(3 * static_cast<float>(i));
      copy.push_back(rounded(param[i]));
    }
  }
  void update(CopyRule rule, std::size_t begin, std::size_t end, InstructionSet level, bool has_copy = true) {
    void* source = gradient.data();
    const auto run = [&](auto pass, const auto& step) {
      pass.param = pass.param_out = param.data();
      pass.gradient.sources = &source;
      if (has_copy) pass.copy = {copy.data(), &was_stale};
      step(pass);
    };
    if (rule == CopyRule::Sgd || rule == CopyRule::Nesterov) {
      SgdPass<float> pass;
      pass.momentum_buffer = first.data();
      pass.hyper = {0.1, rule == CopyRule::Sgd ? 0 : 0.9, 0, 0.01, rule == CopyRule::Nesterov};
      run(pass, [&](const SgdPass<float>& given) { sgd_step(given, begin, end, level); });
      return;
    }
    AdamPass<float> pass;
    pass.exp_avg = first.data();
    pass.exp_avg_sq = second.data();
    pass.max_exp_avg_sq = rule == CopyRule::AmsGradW ? third.data() : nullptr;
    pass.hyper = {0.01, 0.9, 0.999, 1e-8, 0.1};
    run(pass, [&](const AdamPass<float>& given) {
      (rule == CopyRule::AmsGradW ? adamw_step<float> : adam_step<float>)(given, begin, end, level);
    });
  }

  std::vector<float> param, first, second, third, gradient;
  std::vector<std::uint16_t> copy;
  std::atomic<bool> was_stale{false};
};

class WeightCopies : public ::testing::TestWithParam<CopyRule> {};

TEST_P(WeightCopies, AreTheNewWeightsRounded) {
  constexpr std::size_t kSize = 101;
  for (const InstructionSet level : available_instruction_sets()) {
    for (const std::size_t end : {3, 5, 20, 64, 101}) {
      CopiedWeights with(kSize), without(kSize);
      with.update(GetParam(), 3, end, level);
      without.update(GetParam(), 3, end, level, /*has_copy=*/false);
      EXPECT_EQ(with.param, without.param);
      EXPECT_EQ(with.second, without.second);
      EXPECT_FALSE(with.was_stale);
      const CopiedWeights before(kSize);
      for (std::size_t i = 0; i < kSize; ++i) {
        ASSERT_EQ(with.copy[i], i >= 3 && i < end ? rounded(with.param[i]) : before.copy[i]) << i;
      }
    }
  }
}

TEST_P(WeightCopies, OneStaleElementIsFoundAnywhere) {
  constexpr std::size_t kSize = 53;
  for (const InstructionSet level : available_instruction_sets()) {
    for (std::size_t at = 0; at < kSize; ++at) {
      CopiedWeights weights(kSize);
      weights.copy[at] ^= 1;
      weights.update(GetParam(), at + 1, kSize, level);
      EXPECT_FALSE(weights.was_stale) << at;
      weights.update(GetParam(), 0, at + 1, level);
      EXPECT_TRUE(weights.was_stale) << at;
      weights.was_stale = false;
      weights.update(GetParam(), 0, kSize, level);
      EXPECT_FALSE(weights.was_stale) << "the copy was not made right";
    }
  }
}

std::string name_of_rule(const ::testing::TestParamInfo<CopyRule>& test) {
  const std::vector<std::string> names{"sgd", "nesterov", "adam", "adamw_amsgrad"};
  return names[static_cast<std::size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Rules, WeightCopies,
                         ::testing::Values(CopyRule::Sgd, CopyRule::Nesterov, CopyRule::Adam, CopyRule::AmsGradW),
                         name_of_rule);

}  // namespace
}  // namespace lockstep
