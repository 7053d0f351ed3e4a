#include "lockstep/data/dataset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/data/concat_dataset.h"
#include "lockstep/data/subset_dataset.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/data/transform_dataset.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

// n samples: "features" [2] = {i, 10 i}, "labels" = 100 + i.
std::shared_ptr<TensorDataset> numbers(std::int64_t n, std::int64_t from = 0) {
  const at::Tensor i = at::arange(from, from + n, at::kLong);
  return std::make_shared<TensorDataset>(
      Batch{{"features", at::stack({i, 10 * i}, 1).to(at::kFloat)}, {"labels", i + 100}});
}

std::vector<std::int64_t> labels_of(const Batch& batch) {
  const at::Tensor labels = batch.at("labels").contiguous();
  return {labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel()};
}

// get_batch must equal stack_examples of get.
void expect_batches_agree(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
  std::vector<Example> examples;
  for (const std::int64_t index : indices) examples.push_back(dataset.get(index));
  const Batch want = stack_examples(examples);
  const Batch got = dataset.get_batch(indices);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    EXPECT_TRUE(got.at(name).equal(tensor)) << name;
    EXPECT_EQ(got.at(name).dtype(), tensor.dtype()) << name;
  }
}

TEST(TensorDataset, GathersRowsInTheOrderAskedFor) {
  const auto dataset = numbers(5);
  EXPECT_EQ(dataset->size(), 5);
  const Batch batch = dataset->get_batch({4, 0, 4});
  EXPECT_EQ(labels_of(batch), (std::vector<std::int64_t>{104, 100, 104}));
  EXPECT_TRUE(batch.at("features").equal(at::tensor({4.f, 40.f, 0.f, 0.f, 4.f, 40.f}).view({3, 2})));
  EXPECT_EQ(dataset->get(3).at("labels").item<std::int64_t>(), 103);
  EXPECT_EQ(dataset->get(3).at("labels").dim(), 0);
  expect_batches_agree(*dataset, {1, 3, 3, 0});
}

TEST(TensorDataset, TakesTensorsThatAreNotContiguous) {
  const TensorDataset dataset({{"features", at::arange(12).view({3, 4}).t()}, {"empty", at::zeros({4, 0})}});
  EXPECT_EQ(dataset.size(), 4);
  expect_batches_agree(dataset, {3, 0, 1});
}

TEST(TensorDataset, AnEmptyBatchHasTheShapeOfItsSamples) {
  EXPECT_EQ(numbers(3)->get_batch({}).at("features").sizes(), (std::vector<std::int64_t>{0, 2}));
}

TEST(TensorDataset, RefusesWhatIsNoTable) {
  expect_error("fields of one batch differ in size: \"a\" has 2 samples, but \"b\" has 3", [] {
    TensorDataset({{"a", at::zeros({2})}, {"b", at::zeros({3})}});
  });
  expect_error("needs at least one tensor", [] { TensorDataset(Batch{}); });
  expect_error("has no batch dimension", [] { TensorDataset({{"a", at::scalar_tensor(1)}}); });
  expect_error("has no batch dimension", [] { TensorDataset({{"a", at::Tensor()}}); });
  expect_error("no sample 3 in a dataset of 3 samples", [] { numbers(3)->get(3); });
  expect_error("no sample -1 in a dataset of 3 samples", [] { numbers(3)->get_batch({0, -1}); });
}

TEST(TransformDataset, ChangesSamplesAndBatchesAlike) {
  const TransformDataset dataset(numbers(6), [](Batch batch) {
    batch["features"] = batch.at("features") * 2;
    batch.erase("labels");
    return batch;
  });
  EXPECT_EQ(dataset.size(), 6);
  EXPECT_TRUE(dataset.get(2).at("features").equal(at::tensor({4.f, 40.f})));
  EXPECT_EQ(dataset.get(2).count("labels"), 0U);
  expect_batches_agree(dataset, {5, 2});
}

TEST(TransformDataset, MustKeepTheNumberOfSamples) {
  const TransformDataset dataset(numbers(6), [](Batch batch) {
    for (auto& field : batch) field.second = field.second.slice(0, 1);
    return batch;
  });
  expect_error("the transform returned 1 samples for 2", [&] { dataset.get_batch({0, 1}); });
  expect_error("the dataset or the function", [] { TransformDataset(nullptr, [](Batch batch) { return batch; }); });
  expect_error("the dataset or the function", [] { TransformDataset(numbers(1), nullptr); });
}

TEST(SubsetDataset, HoldsTheSamplesChosen) {
  const SubsetDataset dataset(numbers(6), {5, 1, 1});
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(labels_of(dataset.get_batch({0, 1, 2})), (std::vector<std::int64_t>{105, 101, 101}));
  expect_batches_agree(dataset, {2, 0});
  expect_error("no sample 3 in a dataset of 3 samples", [&] { dataset.get(3); });
  expect_error("no sample 6 in a dataset of 6 samples", [] { SubsetDataset(numbers(6), {6}); });
}

TEST(RandomSplit, IsPyTorchs) {
  // random_split(range(10), [7, 3], generator=torch.Generator().manual_seed(42))
  const auto parts = random_split(numbers(10), {7, 3}, 42);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(labels_of(parts[0]->get_batch({0, 1, 2, 3, 4, 5, 6})),
            (std::vector<std::int64_t>{102, 106, 101, 108, 104, 105, 100}));
  EXPECT_EQ(labels_of(parts[1]->get_batch({0, 1, 2})), (std::vector<std::int64_t>{109, 103, 107}));
  expect_error("parts of [7, 4] samples do not make up 10 samples", [] { random_split(numbers(10), {7, 4}, 0); });
  expect_error("do not make up 10 samples", [] { random_split(numbers(10), {7}, 0); });
  expect_error("do not make up 10 samples", [] { random_split(numbers(10), {11, -1}, 0); });
}

TEST(ConcatDataset, PutsOneAfterTheOther) {
  const ConcatDataset dataset({numbers(3), numbers(1, 50), numbers(2, 70)});
  EXPECT_EQ(dataset.size(), 6);
  EXPECT_EQ(labels_of(dataset.get_batch({0, 1, 2, 3, 4, 5})),
            (std::vector<std::int64_t>{100, 101, 102, 150, 170, 171}));
  EXPECT_EQ(dataset.get(3).at("labels").item<std::int64_t>(), 150);
  expect_batches_agree(dataset, {5, 0, 3, 1, 3, 4});
  expect_batches_agree(dataset, {4, 5});
  EXPECT_EQ(dataset.get_batch({}).at("features").size(0), 0);
}

TEST(ConcatDataset, NeedsTheSameFieldsEverywhere) {
  const auto other = std::make_shared<TensorDataset>(Batch{{"features", at::zeros({2, 2})}});
  const auto wider =
      std::make_shared<TensorDataset>(Batch{{"features", at::zeros({2, 3})}, {"labels", at::zeros({2}, at::kLong)}});
  expect_error("differ in field", [&] { ConcatDataset({numbers(2), other}).get_batch({0, 2}); });
  expect_error("differ in field", [&] { ConcatDataset({other, numbers(2)}).get_batch({0, 2}); });
  expect_error("differ in field", [&] { ConcatDataset({numbers(2), wider}).get_batch({0, 2}); });
  expect_error("there is no dataset to concatenate", [] { ConcatDataset({}); });
}

TEST(StackExamples, NamesTheFieldThatCannotBeStacked) {
  const Example two{{"ids", at::zeros({2})}};
  const Example three{{"ids", at::zeros({3})}};
  const Example other{{"text", at::zeros({2})}};
  const Example more{{"ids", at::zeros({2})}, {"text", at::zeros({2})}};
  expect_error("field \"ids\" cannot be stacked: Float [2] and Float [3]", [&] { stack_examples({two, three}); });
  expect_error("field \"ids\" cannot be stacked: Float [2] and Long [2]", [&] {
    stack_examples({two, {{"ids", at::zeros({2}, at::kLong)}}});
  });
  expect_error("different fields: {ids} and {text}", [&] { stack_examples({two, other}); });
  expect_error("different fields: {ids} and {ids, text}", [&] { stack_examples({two, more}); });
  expect_error("there are no samples to stack", [] { stack_examples({}); });
}

}  // namespace
}  // namespace lockstep
