#include "lockstep/data/mnist.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/idx.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kSharedData = LOCKSTEP_SHARED_DATA;

class RealImages : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(folder())) GTEST_SKIP() << folder() << " is not there";
  }
  std::string folder() const { return kSharedData + "/" + GetParam(); }
};

TEST_P(RealImages, AreReadWhole) {
  const auto train = mnist(folder(), Split::Train);
  const auto test = mnist(folder(), Split::Test);
  ASSERT_EQ(train->size(), 60000);
  ASSERT_EQ(test->size(), 10000);
  DataLoaderOptions options;
  options.batch_size = 1000;
  DataLoader loader(test, options);
  at::Tensor count = at::zeros({10}, at::kLong);
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.at("images").sizes(), (std::vector<std::int64_t>{1000, 1, 28, 28}));
    EXPECT_EQ(batch.at("images").scalar_type(), at::kFloat);
    EXPECT_EQ(batch.at("images").min().item<float>(), 0);
    EXPECT_EQ(batch.at("images").max().item<float>(), 1);
    count += batch.at("labels").bincount({}, 10);
  }
  EXPECT_EQ(count.sum().item<std::int64_t>(), 10000);
  EXPECT_GT(count.min().item<std::int64_t>(), 800);
}

INSTANTIATE_TEST_SUITE_P(Datasets, RealImages, ::testing::Values("mnist", "fashion-mnist"),
                         [](const auto& test) { return std::string(test.param, 5); });

TEST(Mnist, HasTheFirstLabelsAndTheMeanThatItIsKnownFor) {
  const std::string folder = kSharedData + "/mnist";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not there";
  const auto train = mnist(folder, Split::Train);
  EXPECT_TRUE(train->get_batch({0, 1, 2, 3, 4}).at("labels").equal(at::tensor({5, 0, 4, 1, 9}, at::kLong)));
  const auto bytes =
      read_labelled_images(folder + "/train-images-idx3-ubyte.gz", folder + "/train-labels-idx1-ubyte.gz");
  // 0.1307 and 0.3081 are the mean and deviation with which MNIST is normalised everywhere.
  const at::Tensor images = bytes->fields().at("images").to(at::kFloat).div_(255);
  EXPECT_NEAR(images.mean(at::kDouble).item<double>(), 0.1307, 5e-5);
  EXPECT_NEAR(images.std().item<double>(), 0.3081, 5e-5);
}

// Small files in MNIST's format.
class SmallFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const at::Tensor& tensor) { write_idx(folder_ / name, tensor); }
  std::shared_ptr<TensorDataset> read(std::int64_t num_classes = 10) {
    return read_labelled_images(folder_ / "images", folder_ / "labels", num_classes);
  }
  TemporaryFolder folder_;
};

TEST_F(SmallFiles, PixelsBecomeFractions) {
  write("t10k-images-idx3-ubyte", at::full({2, 28, 28}, 51, at::kByte));
  write("t10k-labels-idx1-ubyte", at::tensor({3, 9}, at::kByte));
  const auto dataset = mnist(folder_.path(), Split::Test);
  EXPECT_TRUE(dataset->get_batch({0}).at("images").equal(at::full({1, 1, 28, 28}, 51.f / 255.f)));
  EXPECT_EQ(dataset->get(1).at("images").sizes(), (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(dataset->get(1).at("labels").item<std::int64_t>(), 9);
}

TEST_F(SmallFiles, EveryPixelIsWhatToTensorMakesOfIt) {
  const at::Tensor bytes = at::arange(2 * 28 * 28).remainder(256).to(at::kByte).view({2, 28, 28});
  write("t10k-images-idx3-ubyte", bytes);
  write("t10k-labels-idx1-ubyte", at::zeros({2}, at::kByte));
  const at::Tensor got = mnist(folder_.path(), Split::Test)->get_batch({0, 1}).at("images");
  EXPECT_TRUE(got.equal(bytes.to(at::kFloat).div(255).unsqueeze(1)));
}

TEST_F(SmallFiles, AreFoundWhereTorchvisionPutsThem) {
  std::filesystem::create_directories(folder_ / "MNIST/raw");
  write("MNIST/raw/train-images-idx3-ubyte", at::zeros({2, 28, 28}, at::kByte));
  write("MNIST/raw/train-labels-idx1-ubyte", at::zeros({2}, at::kByte));
  EXPECT_EQ(mnist(folder_.path(), Split::Train)->size(), 2);
}

TEST_F(SmallFiles, ThatAreMissingAreNamedWithWhatToDo) {
  expect_error("train-images-idx3-ubyte is not in " + folder_.path(), [&] { mnist(folder_.path(), Split::Train); });
  expect_error("lockstep data get mnist", [&] { mnist(folder_.path(), Split::Train); });
}

TEST_F(SmallFiles, ThatDoNotBelongTogetherAreErrors) {
  const at::Tensor images = at::zeros({3, 28, 28}, at::kByte);
  write("images", images);
  write("labels", at::zeros({2}, at::kByte));
  expect_error("3 images but 2 labels", [&] { read(); });
  write("labels", images);
  expect_error("labels were expected as 1 dimensions of bytes (magic 00000801), but 3 of Byte were found",
               [&] { read(); });
  write("labels", at::zeros({3}, at::kInt));
  expect_error("labels were expected as 1 dimensions of bytes (magic 00000801), but 1 of Int were found",
               [&] { read(); });
  write("images", at::zeros({3}, at::kByte));
  expect_error("images were expected as 3 dimensions of bytes (magic 00000803), but 1 of Byte were found",
               [&] { read(); });
  write("images", at::zeros({0, 28, 28}, at::kByte));
  write("labels", at::zeros({0}, at::kByte));
  expect_error("the file has no images", [&] { read(); });
}

TEST_F(SmallFiles, LabelsOutsideTheClassesAreErrors) {
  write("images", at::zeros({3, 2, 2}, at::kByte));
  write("labels", at::tensor({1, 10, 11}, at::kByte));
  expect_error("label 10 of sample 1 is outside 0 to 9", [&] { read(); });
  EXPECT_EQ(read(12)->size(), 3);
  expect_error("label 11 of sample 2 is outside 0 to 10", [&] { read(11); });
}

TEST_F(SmallFiles, OfAnotherSizeAreNotMnist) {
  write("train-images-idx3-ubyte", at::zeros({3, 14, 28}, at::kByte));
  write("train-labels-idx1-ubyte", at::zeros({3}, at::kByte));
  expect_error("images are 14 x 28, but must be 28 x 28", [&] { mnist(folder_.path(), Split::Train); });
}

}  // namespace
}  // namespace lockstep
