#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lockstep/data/batch.h"
#include "lockstep/data/mnist.h"

namespace lockstep {

/// Handwritten-looking digits, made by the project for machines without MNIST: strokes of several shapes per digit,
/// bent, turned, sheared, stretched and moved at random, drawn with pens of random width, with noise.
///
/// Image i depends only on (seed, split, i): its bytes are equal on every machine, whatever `count` is. Train and test
/// share no image. Each group of ten labels, counted from the first, is the ten digits in random order.
///
/// @return  "images" [count, 28, 28] uint8, "labels" [count] uint8
/// @throws Error  if `count` is not positive
Batch make_digits(std::int64_t count, std::uint64_t seed, Split split);

struct DigitsOptions {
  std::int64_t train = 12000;  ///< images to train on
  std::int64_t test = 2000;    ///< images to test on
  std::uint64_t seed = 0;
};

/// Writes generated digits into `folder` as IDX files under MNIST's names, so that `mnist(folder, split)` reads them.
/// Creates the folder if it does not exist.
/// @throws Error  if a count is not positive or above 1 000 000, a file cannot be written, or the folder holds other
/// content under these names, with or without .gz, and `overwrite` is not set
void write_digits(const std::string& folder, const DigitsOptions& options = {}, bool overwrite = false);

}  // namespace lockstep
