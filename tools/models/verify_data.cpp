#include "tools/models/verify_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/mnist.h"
#include "lockstep/data/nsl_kdd.h"

namespace lockstep {

std::shared_ptr<const Dataset> verification_data(const Model& model, const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  switch (model.input_kind()) {
    case InputKind::Image:
      return mnist(path, Split::Train);
    case InputKind::Features:
      if (is_folder) {
        throw Error("a model of features reads one file of NSL-KDD, but this is a folder", "--data " + path,
                    "name a file in it, as KDDTrain+.txt, plain or .gz");
      }
      return read_nsl_kdd(path).dataset;
    case InputKind::Text:
      break;
  }
  throw UsageError("a model for texts takes random tokens here, not a file", "--data " + path, "leave --data out");
}

Batch verification_batch(const Dataset& dataset, const std::string& path, std::int64_t size, int step) {
  const std::int64_t first = step * size;
  if (first + size > dataset.size()) {
    throw Error(
        fmt::format("step {} of {} samples needs more samples than the {} available", step + 1, size, dataset.size()),
        path, "make --batch or --steps smaller");
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), first);
  return dataset.get_batch(indices);
}

}  // namespace lockstep
