#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "lockstep/tensor/batch.h"
#include "tests/data/expect_error.h"

namespace lockstep {
namespace {

TEST(BatchField, IsTheTensorOfThatName) {
  const Batch batch{{"images", at::ones({2, 3})}, {"labels", at::ones({2})}};
  EXPECT_TRUE(batch_field(batch, "images").is_same(batch.at("images")));
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
