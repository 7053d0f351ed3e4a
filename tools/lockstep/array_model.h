#pragma once

#include <memory>
#include <string>

#include "lockstep/models/registry.h"

namespace lockstep {

/// A model of images or tables by name, or `usual` with the weights of a folder that a training wrote.
/// @throws Error  if the weights do not fit `options`
std::shared_ptr<Model> array_model(const std::string& folder_or_name, const std::string& usual,
                                   const ModelOptions& options);

}  // namespace lockstep
