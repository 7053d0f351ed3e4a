#include "lockstep/train/metrics.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

at::Tensor classes_of(const std::vector<std::int64_t>& values) { return torch::tensor(values, torch::kLong); }

// Computed from the definitions, in Python with NumPy.
struct AveragedScores {
  Average average;
  double precision, recall, f1;
};

TEST(ConfusionMatrix, FourClassesAsByDefinition) {
  ConfusionMatrix matrix(4);
  matrix.add(classes_of({0, 2, 2, 1, 1, 0, 2, 2, 0, 0, 2, 2}), classes_of({0, 1, 2, 2, 1, 0, 2, 2, 1, 0, 3, 2}));
  EXPECT_NEAR(matrix.accuracy(), 2.0 / 3, 1e-15);
  for (const AveragedScores& want :
       {AveragedScores{Average::Macro, 0.47916666666666663, 0.5333333333333333, 0.49610389610389605},
        AveragedScores{Average::Weighted, 0.5902777777777778, 0.6666666666666666, 0.6173160173160173}}) {
    EXPECT_NEAR(matrix.precision(want.average), want.precision, 1e-15);
    EXPECT_NEAR(matrix.recall(want.average), want.recall, 1e-15);
    EXPECT_NEAR(matrix.f1(want.average), want.f1, 1e-15);
  }
  EXPECT_NEAR(matrix.matthews_correlation(), 0.511681719253465, 1e-14);
  EXPECT_THROW(matrix.f1(Average::Binary), Error);
}

TEST(ConfusionMatrix, TwoClasses) {
  ConfusionMatrix matrix(2);
  matrix.add(classes_of({1, 0, 0, 1, 1, 0, 1, 0, 0}), classes_of({1, 0, 1, 1, 0, 0, 1, 0, 1}));
  EXPECT_NEAR(matrix.precision(Average::Binary), 0.75, 1e-15);
  EXPECT_NEAR(matrix.recall(Average::Binary), 0.6, 1e-15);
  EXPECT_NEAR(matrix.f1(Average::Binary), 2.0 / 3, 1e-15);
  EXPECT_NEAR(matrix.matthews_correlation(), 0.35, 1e-15);
}

TEST(ConfusionMatrix, CountsOfSharesAddUp) {
  const at::Tensor predictions = torch::randint(5, {97}, torch::kLong);
  const at::Tensor labels = torch::randint(5, {97}, torch::kLong);
  ConfusionMatrix whole(5);
  whole.add(predictions, labels);
  ConfusionMatrix sum(5);
  for (int rank = 0; rank < 3; ++rank) {
    ConfusionMatrix share(5);
    share.add(predictions.slice(0, rank, 97, 3), labels.slice(0, rank, 97, 3));
    sum.counts() += share.counts();
  }
  EXPECT_EQ(sum.f1(Average::Macro), whole.f1(Average::Macro));
  EXPECT_EQ(sum.total(), 97);
}

TEST(ConfusionMatrix, EdgesAreZerosAndErrors) {
  ConfusionMatrix matrix(3);
  EXPECT_EQ(matrix.accuracy(), 0);
  EXPECT_EQ(matrix.matthews_correlation(), 0);
  matrix.add(classes_of({0, 1}), classes_of({-100, 1}));
  EXPECT_EQ(matrix.total(), 1);
  EXPECT_EQ(matrix.f1(Average::Macro), 1);  // classes that never occur do not count
  EXPECT_THROW(matrix.add(classes_of({0}), classes_of({3})), Error);
  EXPECT_THROW(matrix.add(classes_of({0, 1}), classes_of({0})), Error);
  EXPECT_THROW(ConfusionMatrix(0), Error);
}

TEST(Metrics, OfScoresAndLabels) {
  EvalPrediction evaluation;
  evaluation.predictions = torch::tensor({{2.0, 1.0}, {0.0, 3.0}, {1.0, 0.0}});
  evaluation.label_ids = classes_of({0, 1, 1});
  const Metrics got = classification_metrics()(evaluation);
  EXPECT_NEAR(got.at("accuracy"), 2.0 / 3, 1e-15);
  EXPECT_NEAR(got.at("f1"), 2.0 / 3, 1e-15);
  EXPECT_EQ(got.size(), 2U);
  ClassificationMetricsOptions unknown;
  unknown.metrics = {"acuracy"};
  EXPECT_THROW(classification_metrics(unknown), UsageError);
}

TEST(Metrics, OfNumbersAndOfLanguageModels) {
  const at::Tensor x = torch::tensor({0.5, 1.25, -2.0, 3.0, 4.5}, torch::kDouble);
  const at::Tensor y = torch::tensor({1.0, 1.0, -1.5, 2.0, 6.0}, torch::kDouble);
  EXPECT_NEAR(pearson_correlation(x, y), 0.939998328471647, 1e-14);
  EXPECT_NEAR(regression_metrics()({x.view({5, 1}), y, 0}).at("mse"), 0.7625, 1e-15);
  EXPECT_NEAR(regression_metrics()({x.view({5, 1}), y, 0}).at("spearmanr"), spearman_correlation(x, y), 1e-15);
  EXPECT_NEAR(language_modeling_metrics()({{}, {}, 2.0}).at("perplexity"), std::exp(2.0), 1e-12);
  EXPECT_THROW(pearson_correlation(x, y.slice(0, 1)), Error);
}

// scipy.stats.spearmanr([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]), the example of its documentation: two values are equal.
TEST(Metrics, EqualValuesShareTheirRank) {
  const at::Tensor x = torch::tensor({1, 2, 3, 4, 5}), y = torch::tensor({5, 6, 7, 8, 7});
  EXPECT_NEAR(spearman_correlation(x, y), 0.8207826816681233, 1e-15);
  EXPECT_NEAR(spearman_correlation(x, x.exp()), 1, 1e-15);
  EXPECT_NEAR(spearman_correlation(x, -x), -1, 1e-15);
}

}  // namespace
}  // namespace lockstep
