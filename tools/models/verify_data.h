// The data with which `lockstep verify` trains.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/models/model.h"

namespace lockstep {

/// The data at `path` for `model`: a folder of IDX files for image models, a file of NSL-KDD for models of features.
/// @throws Error  if it cannot be read, or the model takes something else
std::shared_ptr<const Dataset> verification_data(const Model& model, const std::string& path);

/// Samples number `step` * `size` and the `size` - 1 after it. @throws Error  if there are not that many
Batch verification_batch(const Dataset& dataset, const std::string& path, std::int64_t size, int step);

}  // namespace lockstep
