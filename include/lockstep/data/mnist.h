#pragma once

#include <memory>
#include <string>

#include "lockstep/data/tensor_dataset.h"

namespace lockstep {

enum class Split { Train, Test };

/// The images and labels of two IDX files that belong together, as "images" [n, height, width] uint8 and "labels" [n]
/// int64.
/// @throws Error  as `read_idx`; if the images are not three-dimensional bytes, the labels are not one-dimensional
/// bytes, or their counts differ; if there are no images; with its number, if a label is not in [0, num_classes)
std::shared_ptr<TensorDataset> read_labelled_images(const std::string& images_path, const std::string& labels_path,
                                                    std::int64_t num_classes = 10);

/// MNIST, or a dataset in its format (Fashion-MNIST, generated digits), as models take it: "images" [n, 1, 28, 28]
/// float in [0, 1], "labels" [n] int64. Memory holds the pixels as bytes; batches are converted when they are read, as
/// torchvision's ToTensor does.
/// @param folder  holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte, each plain or with .gz; or has them in MNIST/raw or raw, where torchvision puts them
/// @param num_classes  labels must be below it; 0: any
/// @throws Error  that lists what was looked for, if a file is missing; as `read_labelled_images`; if the images are
/// not 28 x 28
std::shared_ptr<const Dataset> mnist(const std::string& folder, Split split, std::int64_t num_classes = 10);

/// The number of classes that the labels of a folder in MNIST's format need: the highest label plus 1. Throws as
/// `mnist`.
std::int64_t count_mnist_classes(const std::string& folder, Split split);

}  // namespace lockstep
