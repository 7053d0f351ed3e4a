#include "lockstep/data/images/digits.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/idx.h"
#include "lockstep/data/images/digit_strokes.h"
#include "lockstep/data/images/split_mix.h"
#include "lockstep/data/images/stroke_image.h"

namespace lockstep {
namespace {

constexpr int kDigits = 10;
constexpr int kPixels = StrokeImage::kSide * StrokeImage::kSide;
constexpr int kDigitUnit = StrokeImage::kUnitsPerPixel;

// A separate generator for each image and each block of labels.
SplitMix generator(std::uint64_t seed, Split split, std::uint64_t purpose, std::int64_t index) {
  SplitMix mix(seed);
  std::uint64_t key = mix.next() ^ (split == Split::Test ? 0xa0761d6478bd642f : 0);
  key = SplitMix(key ^ purpose).next();
  return SplitMix(SplitMix(key + static_cast<std::uint64_t>(index)).next());
}

// The digits of a block of ten images.
std::array<std::uint8_t, kDigits> labels_of_block(std::uint64_t seed, Split split, std::int64_t block) {
  SplitMix random = generator(seed, split, 1, block);
  std::array<std::uint8_t, kDigits> labels{};
  for (int i = 0; i < kDigits; ++i) {
    const int j = random.between(0, i);
    labels[i] = labels[j];
    labels[j] = static_cast<std::uint8_t>(i);
  }
  return labels;
}

// Maps a designed digit onto the image, in fixed point with 12 fractional bits.
class Placement {
 public:
  explicit Placement(SplitMix& random) {
    const int sine = random.between(-900, 900);  // up to 13 degrees
    const int cosine = kOne - sine * sine / (2 * kOne);
    const int shear = random.between(-1200, 1000);
    const int width = random.between(2700, 4500);
    const int height = random.between(3300, 4500);
    xx_ = cosine * width / kOne;
    xy_ = (cosine * shear / kOne - sine) * height / kOne;
    yx_ = sine * width / kOne;
    yy_ = (sine * shear / kOne + cosine) * height / kOne;
    centre_x_ = (StrokeImage::kSide / 2) * kDigitUnit + random.between(-2 * kDigitUnit, 2 * kDigitUnit);
    centre_y_ = (StrokeImage::kSide / 2) * kDigitUnit + random.between(-2 * kDigitUnit, 2 * kDigitUnit);
  }

  StrokePoint operator()(StrokePoint p) const {
    // 100 designed units are 20 pixels, so one is 51 units of the image.
    const int x = (p.x - 50) * 51;
    const int y = (p.y - 50) * 51;
    return {centre_x_ + (xx_ * x + xy_ * y) / kOne, centre_y_ + (yx_ * x + yy_ * y) / kOne};
  }

 private:
  static constexpr int kOne = 4096;
  int xx_, xy_, yx_, yy_;
  int centre_x_, centre_y_;
};

void draw_digit(int digit, SplitMix& random, StrokeImage& image) {
  const auto& shapes = digit_shapes()[digit];
  const auto& shape = shapes[random.between(0, static_cast<int>(shapes.size()) - 1)];
  const Placement place(random);
  for (Stroke stroke : shape) {
    for (StrokePoint& point : stroke) {
      point.x += random.between(-5, 5);
      point.y += random.between(-5, 5);
      point = place(point);
    }
    image.draw(smooth(std::move(stroke)));
  }
}

void add_noise(SplitMix& random, std::uint8_t* pixels) {
  const int ink = random.between(150, 255);
  const int grain = random.between(0, 70);
  for (int i = 0; i < kPixels; ++i) {
    const int value = pixels[i] * ink / 255 + random.between(-grain, grain);
    pixels[i] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
  }
}

void draw_image(int digit, SplitMix random, std::uint8_t* pixels) {
  StrokeImage image;
  draw_digit(digit, random, image);
  image.render(random.between(kDigitUnit / 2, kDigitUnit * 3 / 2), pixels);
  add_noise(random, pixels);
}

void check_count(const char* what, std::int64_t count) {
  constexpr std::int64_t kMost = 1000000;
  if (count >= 1 && count <= kMost) return;
  throw Error(fmt::format("cannot make {} digits to {}", count, what), "write_digits",
              fmt::format("ask for 1 to {}", kMost));
}

bool holds(const std::string& path, const at::Tensor& tensor) {
  try {
    return at::equal(read_idx(path), tensor);
  } catch (const std::exception&) {
    return false;  // not IDX, or another dtype or shape
  }
}

// Throws if `path` or `path`.gz exists with content other than `tensor`.
void refuse_other(const std::string& path, const at::Tensor& tensor) {
  for (const std::string& found : {path, path + ".gz"}) {
    if (!std::filesystem::exists(found) || holds(found, tensor)) continue;
    throw Error("a file with other content exists where the generated digits would be written", found,
                "give another folder, or overwrite: --force of lockstep data digits, `overwrite` of write_digits");
  }
}

}  // namespace

Batch make_digits(std::int64_t count, std::uint64_t seed, Split split) {
  if (count < 1) throw Error(fmt::format("cannot make {} digits", count), "make_digits", "ask for at least 1");
  at::Tensor images = at::empty({count, StrokeImage::kSide, StrokeImage::kSide}, at::kByte);
  at::Tensor labels = at::empty({count}, at::kByte);
  auto* pixels = images.data_ptr<std::uint8_t>();
  auto* label = labels.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % kDigits == 0) {
      const auto block = labels_of_block(seed, split, i / kDigits);
      std::copy_n(block.begin(), std::min<std::int64_t>(kDigits, count - i), label + i);
    }
    draw_image(label[i], generator(seed, split, 2, i), pixels + i * kPixels);
  }
  return {{"images", images}, {"labels", labels}};
}

void write_digits(const std::string& folder, const DigitsOptions& options, bool overwrite) {
  check_count("train", options.train);
  check_count("test", options.test);
  const Batch train = make_digits(options.train, options.seed, Split::Train);
  const Batch test = make_digits(options.test, options.seed, Split::Test);
  const std::array<std::pair<const char*, at::Tensor>, 4> files{{{"train-images-idx3-ubyte", train.at("images")},
                                                                 {"train-labels-idx1-ubyte", train.at("labels")},
                                                                 {"t10k-images-idx3-ubyte", test.at("images")},
                                                                 {"t10k-labels-idx1-ubyte", test.at("labels")}}};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(fmt::format("cannot make the folder {}: {}", folder, failed.message()), folder,
                "give a folder that you may write to");
  }
  for (const auto& [name, tensor] : files) {
    if (!overwrite) refuse_other(folder + "/" + name, tensor);
  }
  for (const auto& [name, tensor] : files) write_idx(folder + "/" + name, tensor);
}

}  // namespace lockstep
