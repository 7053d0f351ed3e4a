#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/tensor/batch.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

TEST(BatchField, IsTheTensorOfThatName) {
  const Batch batch{{"images", at::ones({2, 3})}, {"labels", at::ones({2})}};
  EXPECT_TRUE(batch_field(batch, "images").is_same(batch.at("images")));
}

// Programs read a batch or a sample by `at`.
TEST(BatchField, AtNamesWhatIsMissingAndWhatIsThere) {
  const Batch batch{{"images", at::ones({2, 3})}, {"labels", at::ones({2})}};
  const std::string fields = "with the fields: images, labels\n";
  expect_error("there is no field 'lables'; did you mean 'labels'?", [&] { batch.at("lables"); });
  expect_error(fields, [&] { batch.at("features"); });
  Batch to_change = batch;
  to_change.at("labels") = at::ones({3});
  EXPECT_EQ(to_change.at("labels").size(0), 3);
  expect_error(fields, [&] { to_change.at("features") = at::ones({2}); });
  expect_error("with the fields: none", [] { TensorFields().at("images"); });
}

// A program may keep its tensors in a plain map.
TEST(BatchField, AMapIsABatch) {
  const std::map<std::string, at::Tensor> map{{"images", at::ones({2, 3})}};
  const Batch batch = map;
  const std::map<std::string, at::Tensor>& again = batch;
  EXPECT_EQ(again.size(), 1U);
}

TEST(BatchField, NamesWhatIsMissingAndWhatIsThere) {
  const Batch batch{{"images", at::ones({2, 3})}, {"labels", at::ones({2})}, {"nothing", at::Tensor()}};
  expect_error("the batch has no 'lables'; did you mean 'labels'?", [&] { batch_field(batch, "lables"); });
  expect_error("my loss, batch with: images, labels\n", [&] { batch_field(batch, "features", "my loss"); });
  expect_error("the batch has no 'nothing'", [&] { batch_field(batch, "nothing"); });
  expect_error("batch with: nothing", [] { batch_field({}, "images"); });
}

}  // namespace
}  // namespace lockstep
