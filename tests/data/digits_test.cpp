#include "lockstep/data/images/digits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/data_loader.h"
#include "tests/data/gzip_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// FNV-1a.
std::uint64_t hash_of(const at::Tensor& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto* at = bytes.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) hash = (hash ^ at[i]) * 0x100000001b3;
  return hash;
}

TEST(Digits, AreTheSameBytesOnEveryMachine) {
  // Recorded when the generator was made; GCC and Clang, with and without optimization, agree.
  const Batch digits = make_digits(500, 1, Split::Train);
  EXPECT_EQ(hash_of(digits.at("images")), 1496839487678392442ULL);
  EXPECT_EQ(hash_of(digits.at("labels")), 2254125770622546977ULL);
}

TEST(Digits, DependOnSeedSplitAndIndexAlone) {
  const Batch few = make_digits(25, 3, Split::Train);
  const Batch many = make_digits(40, 3, Split::Train);
  EXPECT_TRUE(few.at("images").equal(many.at("images").slice(0, 0, 25)));
  EXPECT_TRUE(few.at("labels").equal(many.at("labels").slice(0, 0, 25)));
  for (const Batch& other : {make_digits(25, 4, Split::Train), make_digits(25, 3, Split::Test)}) {
    EXPECT_FALSE(few.at("labels").equal(other.at("labels")));
    EXPECT_FALSE((few.at("images") == other.at("images")).flatten(1).all(1).any().item<bool>())
        << "an image came again";
  }
}

TEST(Digits, ComeEquallyOften) {
  const at::Tensor labels = make_digits(1000, 0, Split::Train).at("labels").to(at::kLong);
  EXPECT_TRUE(labels.bincount({}, 10).equal(at::full({10}, 100, at::kLong)));
  for (const at::Tensor& block : labels.view({100, 10}).unbind(0)) {
    EXPECT_TRUE(std::get<0>(block.sort()).equal(at::arange(10)));
  }
}

TEST(Digits, LookLikeDigits) {
  // A nearest-mean classifier is weak, but far better than one in ten guesses if images of a class have a common shape.
  const Batch train = make_digits(2000, 0, Split::Train);
  const Batch test = make_digits(500, 0, Split::Test);
  const at::Tensor images = train.at("images").flatten(1).to(at::kFloat);
  std::vector<at::Tensor> means;
  for (int digit = 0; digit < 10; ++digit) means.push_back(images.index({train.at("labels") == digit}).mean(0));
  const at::Tensor distances = at::cdist(test.at("images").flatten(1).to(at::kFloat), at::stack(means));
  const double accuracy = (distances.argmin(1) == test.at("labels")).to(at::kDouble).mean().item<double>();
  EXPECT_GT(accuracy, 0.55);
  EXPECT_LT(accuracy, 0.95) << "too easy to be worth training on";
}

TEST(WriteDigits, MakesAFolderThatMnistReads) {
  const TemporaryFolder folder;
  write_digits(folder / "a/b", {30, 20, 7});
  EXPECT_EQ(mnist(folder / "a/b", Split::Test)->size(), 20);
  const auto train = mnist(folder / "a/b", Split::Train);
  ASSERT_EQ(train->size(), 30);
  const Batch want = make_digits(30, 7, Split::Train);
  EXPECT_TRUE((train->get(29).at("images") * 255).round().to(at::kByte).equal(want.at("images").slice(0, 29)));
  EXPECT_EQ(train->get(29).at("labels").item<std::int64_t>(), want.at("labels")[29].item<std::int64_t>());
}

TEST(WriteDigits, OverwritesOtherFilesOnlyWhenAsked) {
  const TemporaryFolder folder;
  write_digits(folder.path(), {30, 20, 7});
  write_digits(folder.path(), {30, 20, 7});
  expect_error("a file with other content", [&] { write_digits(folder.path(), {30, 20, 8}); });
  EXPECT_EQ(mnist(folder.path(), Split::Test)->size(), 20);
  write_digits(folder.path(), {30, 10, 8}, true);
  EXPECT_EQ(mnist(folder.path(), Split::Test)->size(), 10);
}

TEST(WriteDigits, DoesNotHideDownloadedFiles) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "t10k-labels-idx1-ubyte.gz", gzip_bytes("something"));
  expect_error("t10k-labels-idx1-ubyte.gz", [&] { write_digits(folder.path(), {30, 20, 7}); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing was written";
}

TEST(WriteDigits, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  expect_error("cannot make 0 digits to train", [&] { write_digits(folder.path(), {0, 20, 7}); });
  expect_error("cannot make 1000001 digits to test", [&] { write_digits(folder.path(), {10, 1000001, 7}); });
  write_file_atomically(folder / "file", "");
  expect_error("cannot make the folder", [&] { write_digits(folder / "file/inside", {30, 20, 7}); });
}

}  // namespace
}  // namespace lockstep
