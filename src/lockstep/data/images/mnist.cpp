#include "lockstep/data/mnist.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/data/idx.h"
#include "lockstep/data/transform_dataset.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kMostClasses = 256;  // labels are bytes

void check_digits(const at::Tensor& labels, std::int64_t num_classes, const std::string& path) {
  const auto* values = labels.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    if (values[i] < num_classes) continue;
    throw Error(fmt::format("label {} of sample {} is outside 0 to {}", values[i], i, num_classes - 1), path,
                "give the labels that belong to the images, or the number of classes that they have");
  }
}

void check_dims(const at::Tensor& tensor, std::int64_t dims, const char* what, const std::string& path) {
  if (tensor.scalar_type() == at::kByte && tensor.dim() == dims) return;
  throw Error(fmt::format("{} were expected as {} dimensions of bytes (magic 0000080{}), but {} of {} were found", what,
                          dims, dims, tensor.dim(), c10::toString(tensor.scalar_type())),
              path, "check that images and labels were not mixed up");
}

std::string prefix_of(Split split) { return split == Split::Train ? "train" : "t10k"; }

// A PNG or JPEG in the folder or below it; empty if a look at the first files finds none.
std::string image_in(const std::string& folder) {
  constexpr int kFilesLookedAt = 1000;
  std::error_code ignored;
  int looked_at = 0;
  for (std::filesystem::recursive_directory_iterator at(folder, ignored), end; at != end && looked_at < kFilesLookedAt;
       at.increment(ignored), ++looked_at) {
    const std::string ending = lower_case(at->path().extension().string());
    for (const char* image : {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}) {
      if (ending == image) return at->path().string();
    }
  }
  return "";
}

std::string find_file(const std::string& folder, const std::string& name) {
  std::vector<std::string> tried;
  for (const char* inner : {"", "/MNIST/raw", "/raw"}) {
    for (const char* ending : {"", ".gz"}) {
      std::string path = folder + inner + "/" + name + ending;
      if (std::filesystem::is_regular_file(path)) return path;
      tried.push_back(std::move(path));
    }
  }
  if (const std::string image = image_in(folder); !image.empty()) {
    throw Error(fmt::format("the folder has images as files, such as {}, but only IDX files are read", image), folder,
                fmt::format("write the images as MNIST's IDX files, {} and its labels, in 28 x 28 grey values", name));
  }
  throw Error(fmt::format("{} is not in {}", name, folder), fmt::format("looked for {}", fmt::join(tried, ", ")),
              fmt::format("download it with `lockstep data get mnist --output {}`, or write generated digits with "
                          "`lockstep data digits --output {}`",
                          folder, folder));
}

std::array<float, 256> unit_fractions() {
  std::array<float, 256> fractions{};
  for (std::size_t i = 0; i < fractions.size(); ++i) fractions[i] = static_cast<float>(i) / 255.0F;
  return fractions;
}

// images / 255, as float, with the channel that models expect. Uses a table: ATen would divide on several threads,
// which would take cores from training in a loader's worker.
Batch to_unit_floats(Batch batch) {
  static const std::array<float, 256> fractions = unit_fractions();
  at::Tensor& images = batch.at("images");
  const at::Tensor out = at::empty({images.size(0), 1, images.size(1), images.size(2)}, at::kFloat);
  const auto* pixels = images.data_ptr<std::uint8_t>();
  std::transform(pixels, pixels + images.numel(), out.data_ptr<float>(), [](std::uint8_t p) { return fractions[p]; });
  images = out;
  return batch;
}

}  // namespace

std::shared_ptr<TensorDataset> read_labelled_images(const std::string& images_path, const std::string& labels_path,
                                                    std::int64_t num_classes) {
  const at::Tensor images = read_idx(images_path);
  check_dims(images, 3, "images", images_path);
  const at::Tensor labels = read_idx(labels_path);
  check_dims(labels, 1, "labels", labels_path);
  if (images.size(0) != labels.size(0)) {
    throw Error(fmt::format("there are {} images but {} labels", images.size(0), labels.size(0)),
                fmt::format("{} and {}", images_path, labels_path), "give two files that belong together");
  }
  if (images.numel() == 0) throw Error("the file has no images", images_path, "give a file with images");
  check_digits(labels, num_classes, labels_path);
  return std::make_shared<TensorDataset>(Batch{{"images", images}, {"labels", labels.to(at::kLong)}});
}

std::shared_ptr<const Dataset> mnist(const std::string& folder, Split split, std::int64_t num_classes) {
  const std::string images_path = find_file(folder, prefix_of(split) + "-images-idx3-ubyte");
  const auto bytes = read_labelled_images(images_path, find_file(folder, prefix_of(split) + "-labels-idx1-ubyte"),
                                          num_classes == 0 ? kMostClasses : num_classes);
  const at::Tensor& images = bytes->fields().at("images");
  if (images.size(1) != kSide || images.size(2) != kSide) {
    throw Error(fmt::format("images are {} x {}, but must be 28 x 28", images.size(1), images.size(2)), images_path,
                "give images in MNIST's form, or read these with read_labelled_images");
  }
  return std::make_shared<TransformDataset>(bytes, to_unit_floats);
}

std::int64_t count_mnist_classes(const std::string& folder, Split split) {
  const std::string path = find_file(folder, prefix_of(split) + "-labels-idx1-ubyte");
  const at::Tensor labels = read_idx(path);
  check_dims(labels, 1, "labels", path);
  if (labels.numel() == 0) throw Error("the file has no labels", path, "give a file with labels");
  return labels.max().item<std::int64_t>() + 1;
}

}  // namespace lockstep
