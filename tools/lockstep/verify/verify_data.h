// The data that `lockstep verify` trains on.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/models/model.h"

namespace lockstep {

/// What stands at `path`, in the form that `model` takes: for image models a folder of IDX files, for models of
/// features a file of NSL-KDD. @throws Error  if it cannot be read, or the model takes something else
std::shared_ptr<const Dataset> verification_data(const Model& model, const std::string& path);

/// Samples number `step` * `size` and the `size` - 1 after it. @throws Error  if there are not that many
Batch verification_batch(const Dataset& dataset, const std::string& path, std::int64_t size, int step);

}  // namespace lockstep
