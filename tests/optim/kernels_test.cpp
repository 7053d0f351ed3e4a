// Tests the kernels on plain memory: every instruction set, any cut, several sources.
#include "lockstep/optim/kernels/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace lockstep {
namespace {

const char* name_of(InstructionSet level) {
  constexpr const char* kNames[] = {"scalar", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(level)];
}

template <typename T>
std::vector<T> random_values(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(normal(generator));
  return values;
}

template <typename T>
constexpr ElementType kType = ElementType::Float;
template <>
constexpr ElementType kType<double> = ElementType::Double;
template <>
constexpr ElementType kType<c10::BFloat16> = ElementType::BFloat16;
template <>
constexpr ElementType kType<c10::Half> = ElementType::Half;

template <typename G>
std::vector<std::vector<G>> random_sources(std::size_t ranks, std::size_t n) {
  std::vector<std::vector<G>> sources;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto values = random_values<float>(n, 100 + static_cast<unsigned>(r));
    sources.emplace_back();
    for (const float value : values) sources.back().push_back(static_cast<G>(value));
  }
  return sources;
}

template <typename G>
std::vector<void*> pointers(std::vector<std::vector<G>>& sources) {
  std::vector<void*> result;
  for (auto& source : sources) result.push_back(source.data());
  return result;
}

template <typename G>
GradientSource source_of(const std::vector<void*>& sources) {
  GradientSource gradient;
  gradient.sources = sources.data();
  gradient.num_sources = sources.size();
  gradient.type = kType<G>;
  return gradient;
}

/// Weights and state of one update.
template <typename T>
struct Memory {
  explicit Memory(std::size_t n)
      : param(random_values<T>(n, 1)), first(random_values<T>(n, 2)), second(random_values<T>(n, 3)) {
    for (T& value : second) value = value * value;
    third = second;
  }
  std::vector<T> param, first, second, third;
  bool operator==(const Memory& other) const {
    return param == other.param && first == other.first && second == other.second && third == other.third;
  }
};

using Update = std::function<void(Memory<float>&, const GradientSource&, std::size_t, std::size_t, InstructionSet)>;

void adam_update(Memory<float>& memory, const GradientSource& gradient, std::size_t begin, std::size_t end,
                 InstructionSet level, bool decoupled, bool amsgrad) {
  AdamPass<float> pass;
  pass.param = pass.param_out = memory.param.data();
  pass.exp_avg = memory.first.data();
  pass.exp_avg_sq = memory.second.data();
  pass.max_exp_avg_sq = amsgrad ? memory.third.data() : nullptr;
  pass.step = 3;
  pass.gradient = gradient;
  pass.hyper = {1e-2, 0.9, 0.999, 1e-8, 0.1};
  (decoupled ? adamw_step<float> : adam_step<float>)(pass, begin, end, level);
}

void sgd_update(Memory<float>& memory, const GradientSource& gradient, std::size_t begin, std::size_t end,
                InstructionSet level, const SgdHyperparameters& hyper, bool first) {
  SgdPass<float> pass;
  pass.param = pass.param_out = memory.param.data();
  pass.momentum_buffer = memory.first.data();
  pass.first = first;
  pass.gradient = gradient;
  pass.hyper = hyper;
  sgd_step(pass, begin, end, level);
}

struct Rule {
  const char* name;
  Update update;
  friend std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name; }
};

std::vector<Rule> rules() {
  using namespace std::placeholders;
  return {
      {"sgd", std::bind(sgd_update, _1, _2, _3, _4, _5, SgdHyperparameters{0.1, 0, 0, 0.01, false}, false)},
      {"momentum", std::bind(sgd_update, _1, _2, _3, _4, _5, SgdHyperparameters{0.1, 0.9, 0.2, 0.01, false}, false)},
      {"momentum_first", std::bind(sgd_update, _1, _2, _3, _4, _5, SgdHyperparameters{0.1, 0.9, 0.2, 0, false}, true)},
      {"nesterov", std::bind(sgd_update, _1, _2, _3, _4, _5, SgdHyperparameters{0.1, 0.9, 0, 0.01, true}, false)},
      {"adam", std::bind(adam_update, _1, _2, _3, _4, _5, false, false)},
      {"adamw", std::bind(adam_update, _1, _2, _3, _4, _5, true, false)},
      {"adamw_amsgrad", std::bind(adam_update, _1, _2, _3, _4, _5, true, true)},
  };
}

class Kernels : public ::testing::TestWithParam<Rule> {};

// Reads through `round`, as memory of that type would keep it.
template <typename G>
float kept(float value) {
  return static_cast<float>(static_cast<G>(value));
}

// The result of reducing, then clipping, in memory of the gradients' type.
template <typename G>
std::vector<float> reduced(const std::vector<std::vector<G>>& sources, float divisor, float factor) {
  std::vector<float> result;
  for (std::size_t i = 0; i < sources[0].size(); ++i) {
    float sum = static_cast<float>(sources[0][i]);
    for (std::size_t k = 1; k < sources.size(); ++k) sum += static_cast<float>(sources[k][i]);
    volatile float average = kept<G>(sum / divisor);
    result.push_back(kept<G>(average * factor));
  }
  return result;
}

template <typename G>
void check_reduce_then_update(const Rule& rule, InstructionSet level, std::size_t ranks, double factor) {
  constexpr std::size_t kSize = 77;
  auto sources = random_sources<G>(ranks, kSize);
  std::vector<std::vector<float>> one{reduced(sources, static_cast<float>(ranks), static_cast<float>(factor))};
  Memory<float> fused(kSize);
  Memory<float> apart(kSize);
  const auto many = pointers(sources);
  GradientSource gradient = source_of<G>(many);
  gradient.divisor = static_cast<double>(ranks);
  gradient.factor = factor;
  gradient.round = true;
  rule.update(fused, gradient, 0, kSize, level);
  const auto single = pointers(one);
  rule.update(apart, source_of<float>(single), 0, kSize, level);
  EXPECT_TRUE(fused == apart) << name_of(level) << ", " << ranks << " ranks, factor " << factor;
}

TEST_P(Kernels, SeveralSourcesGiveTheBitsOfReducingFirst) {
  for (const InstructionSet level : available_instruction_sets()) {
    for (const std::size_t ranks : {1, 2, 3, 8}) {
      for (const double factor : {1.0, 0.37}) {
        check_reduce_then_update<float>(GetParam(), level, ranks, factor);
        check_reduce_then_update<c10::BFloat16>(GetParam(), level, ranks, factor);
        check_reduce_then_update<c10::Half>(GetParam(), level, ranks, factor);
      }
    }
  }
}

TEST_P(Kernels, AnyCutGivesTheSameBits) {
  constexpr std::size_t kSize = 100;
  auto sources = random_sources<float>(2, kSize);
  const auto both = pointers(sources);
  const GradientSource gradient = source_of<float>(both);
  for (const InstructionSet level : available_instruction_sets()) {
    Memory<float> whole(kSize);
    GetParam().update(whole, gradient, 0, kSize, level);
    for (const std::size_t cut : {1, 7, 16, 33, 99}) {
      Memory<float> cut_up(kSize);
      GetParam().update(cut_up, gradient, 0, cut, level);
      GetParam().update(cut_up, gradient, cut, cut, level);  // nothing
      GetParam().update(cut_up, gradient, cut, kSize, level);
      EXPECT_TRUE(whole == cut_up) << name_of(level) << " cut at " << cut;
    }
  }
}

TEST_P(Kernels, InstructionSetsAgree) {
  constexpr std::size_t kSize = 1003;
  auto sources = random_sources<float>(2, kSize);
  const auto both = pointers(sources);
  Memory<float> scalar(kSize);
  GetParam().update(scalar, source_of<float>(both), 0, kSize, InstructionSet::Baseline);
  std::vector<Memory<float>> vectors;
  for (const InstructionSet level : available_instruction_sets()) {
    Memory<float> memory(kSize);
    GetParam().update(memory, source_of<float>(both), 0, kSize, level);
    for (std::size_t i = 0; i < kSize; ++i) {
      ASSERT_NEAR(memory.param[i], scalar.param[i], 1e-6 * std::max(1.0F, std::abs(scalar.param[i])));
    }
    if (level != InstructionSet::Baseline) vectors.push_back(memory);
  }
  for (const auto& memory : vectors) EXPECT_TRUE(memory == vectors.front());
}

TEST_P(Kernels, TouchesAndZeroesItsElementsOnly) {
  constexpr std::size_t kSize = 64;
  for (const InstructionSet level : available_instruction_sets()) {
    for (const std::size_t end : {5, 21, 40, 63}) {
      auto sources = random_sources<c10::BFloat16>(3, kSize);
      const auto before = sources;
      const auto all = pointers(sources);
      GradientSource gradient = source_of<c10::BFloat16>(all);
      gradient.zero = true;
      Memory<float> memory(kSize);
      const Memory<float> untouched(kSize);
      GetParam().update(memory, gradient, 3, end, level);
      for (std::size_t i = 0; i < kSize; ++i) {
        const bool inside = i >= 3 && i < end;
        EXPECT_EQ(memory.param[i] != untouched.param[i], inside) << name_of(level) << " element " << i;
        EXPECT_TRUE(inside || memory.first[i] == untouched.first[i]);
        for (std::size_t k = 0; k < sources.size(); ++k) {
          EXPECT_EQ(static_cast<float>(sources[k][i]), inside ? 0.0F : static_cast<float>(before[k][i]));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Kernels, ::testing::ValuesIn(rules()),
                         [](const auto& test) { return test.param.name; });

TEST(AdamKernel, WritesNewWeightsElsewhere) {
  const std::vector<float> param{1, 2, 3};
  std::vector<float> out(3), exp_avg(3), exp_avg_sq(3), gradient{1, -1, 0};
  void* source = gradient.data();
  AdamPass<float> pass;
  pass.param = param.data();
  pass.param_out = out.data();
  pass.exp_avg = exp_avg.data();
  pass.exp_avg_sq = exp_avg_sq.data();
  pass.gradient.sources = &source;
  pass.hyper = {0.5, 0.9, 0.999, 0, 0};
  pass.hyper.eps = 1e-8;
  adam_step(pass, 0, 3);
  // The first step of Adam is lr times the sign of the gradient.
  EXPECT_NEAR(out[0], 0.5, 1e-6);
  EXPECT_NEAR(out[1], 2.5, 1e-6);
  EXPECT_EQ(out[2], 3);
  EXPECT_EQ(param, (std::vector<float>{1, 2, 3}));
}

TEST(SgdKernel, DoublesByHand) {
  std::vector<double> param{1, 2}, buffer{0.5, 0}, gradient{3, -1};
  void* source = gradient.data();
  SgdPass<double> pass;
  pass.param = pass.param_out = param.data();
  pass.momentum_buffer = buffer.data();
  pass.gradient.sources = &source;
  pass.gradient.type = ElementType::Double;
  pass.hyper = {0.5, 0.5, 0, 0.25, false};
  for (const InstructionSet level : available_instruction_sets()) {
    param = {1, 2};
    buffer = {0.5, 0};
    sgd_step(pass, 0, 2, level);
    EXPECT_EQ(buffer, (std::vector<double>{3.5, -0.5}));  // 0.5 * 0.5 + 3 + 0.25 * 1; 0 - 1 + 0.25 * 2
    EXPECT_EQ(param, (std::vector<double>{-0.75, 2.25}));
  }
}

// Every 16-bit number, and values between neighbours, through scale_in_place with factor 1 and 1 + 2^-9.
template <typename G>
void check_conversions(InstructionSet level) {
  for (const double factor : {1.0, 1.001953125}) {
    std::vector<std::vector<G>> numbers(1);
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const auto word = static_cast<std::uint16_t>(bits);
      G number;
      std::memcpy(&number, &word, sizeof number);
      numbers[0].push_back(number);
    }
    const auto before = numbers[0];
    const auto pointer = pointers(numbers);
    GradientSource gradient = source_of<G>(pointer);
    gradient.factor = factor;
    EXPECT_FALSE(scale_in_place(gradient, 0, before.size(), level));
    for (std::size_t i = 0; i < before.size(); ++i) {
      const G want = static_cast<G>(static_cast<float>(before[i]) * static_cast<float>(factor));
      const bool nan = std::isnan(static_cast<float>(want));
      ASSERT_EQ(std::isnan(static_cast<float>(numbers[0][i])), nan) << name_of(level) << " " << i;
      if (nan) continue;
      ASSERT_EQ(std::memcmp(&numbers[0][i], &want, sizeof want), 0) << name_of(level) << " " << i;
    }
  }
}

TEST(Conversions, RoundAsLibTorchDoes) {
  for (const InstructionSet level : available_instruction_sets()) {
    check_conversions<c10::BFloat16>(level);
    check_conversions<c10::Half>(level);
  }
}

TEST(SumOfSquares, IsExactWhereDoublesAre) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 8192, 8193, 30000}) {
    std::vector<std::vector<float>> ranks(2, std::vector<float>(n));
    double want = 0;
    for (std::size_t i = 0; i < n; ++i) {
      ranks[0][i] = static_cast<float>(i % 7);
      ranks[1][i] = static_cast<float>(i % 5) - 3;
      const double sum = ranks[0][i] + ranks[1][i];
      want += sum * sum;
    }
    const auto sources = pointers(ranks);
    for (const InstructionSet level : available_instruction_sets()) {
      EXPECT_EQ(sum_of_squares(source_of<float>(sources), 0, n, level), want) << n;
    }
  }
}

TEST(SumOfSquares, HasTheSameBitsWithEveryInstructionSetAndCutAtBlocks) {
  constexpr std::size_t kSize = 3 * kSumBlock + 777;
  auto sources = random_sources<float>(3, kSize);
  const auto all = pointers(sources);
  GradientSource gradient = source_of<float>(all);
  gradient.divisor = 3;
  const double want = sum_of_squares(gradient, 0, kSize, InstructionSet::Baseline);
  for (const InstructionSet level : available_instruction_sets()) {
    EXPECT_EQ(sum_of_squares(gradient, 0, kSize, level), want);
    double blocks = 0;
    for (std::size_t begin = 0; begin < kSize; begin += kSumBlock) {
      blocks += sum_of_squares(gradient, begin, std::min(begin + kSumBlock, kSize), level);
    }
    EXPECT_EQ(blocks, want);
  }
}

TEST(SumOfSquares, DoesNotOverflowInFloat) {
  std::vector<std::vector<float>> big{{1e30F, 1e30F}};
  const auto sources = pointers(big);
  EXPECT_NEAR(sum_of_squares(source_of<float>(sources), 0, 2), 2e60, 1e54);
}

TEST(Finite, SeesOneBadElementAnywhere) {
  constexpr std::size_t kSize = 53;
  for (const InstructionSet level : available_instruction_sets()) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      for (std::size_t at = 0; at < kSize; ++at) {
        std::vector<std::vector<float>> values{random_values<float>(kSize, 5)};
        const auto sources = pointers(values);
        ASSERT_TRUE(all_finite(source_of<float>(sources), 0, kSize, level));
        values[0][at] = bad;
        EXPECT_FALSE(all_finite(source_of<float>(sources), 0, kSize, level)) << name_of(level) << " " << at;
        EXPECT_TRUE(all_finite(source_of<float>(sources), at + 1, kSize, level));
        EXPECT_FALSE(scale_in_place(source_of<float>(sources), 0, kSize, level));
        EXPECT_FALSE(std::isfinite(sum_of_squares(source_of<float>(sources), 0, kSize, level)));
        const double largest = max_abs(source_of<float>(sources), 0, kSize, level);
        EXPECT_EQ(std::isnan(bad), std::isnan(largest));
        EXPECT_EQ(std::isinf(bad), std::isinf(largest));
      }
    }
  }
}

TEST(MinAbs, FindsTheSmallestMagnitude) {
  std::vector<std::vector<double>> values{{1, -0.5, 3, -7}};
  const auto sources = pointers(values);
  EXPECT_EQ(min_abs(source_of<double>(sources), 0, 4), 0.5);
  EXPECT_EQ(min_abs(source_of<double>(sources), 2, 4), 3);
  EXPECT_TRUE(std::isinf(min_abs(source_of<double>(sources), 2, 2)));
  values[0][2] = NAN;
  EXPECT_TRUE(std::isnan(min_abs(source_of<double>(sources), 0, 4)));
}

TEST(MaxAbs, FindsTheLargestMagnitude) {
  std::vector<std::vector<double>> values{{1, -7.5, 3, 0, 2, 2, 2, 2, 7.25}};
  const auto sources = pointers(values);
  for (const InstructionSet level : available_instruction_sets()) {
    EXPECT_EQ(max_abs(source_of<double>(sources), 0, 9, level), 7.5);
    EXPECT_EQ(max_abs(source_of<double>(sources), 2, 9, level), 7.25);
    EXPECT_EQ(max_abs(source_of<double>(sources), 2, 2, level), 0);
  }
  EXPECT_DOUBLE_EQ(sum_of_powers(source_of<double>(sources), 3, 0, 3), 1 + 421.875 + 27);
}

}  // namespace
}  // namespace lockstep
