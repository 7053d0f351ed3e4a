#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/models/model.h"

namespace lockstep {

/// What a model of the registry can be asked to differ in. Zero and empty mean the model's own default; what a model
/// does not have is an Error, not ignored.
struct ModelOptions {
  std::int64_t num_labels = 0;       ///< classes of the head
  std::int64_t features = 0;         ///< mlp: columns of the input
  std::vector<std::int64_t> hidden;  ///< mlp: widths of the hidden layers
  std::int64_t channels = 0;         ///< convnet: of the images
  std::int64_t side = 0;             ///< convnet: height and width of the images
};

struct ModelInfo {
  std::string name;
  std::string summary;  ///< one line: layers and parameters
};

/// The models that can be made by name, random weights, in the order in which help texts list them.
const std::vector<ModelInfo>& registered_models();

/// A new model with random weights, drawn from LibTorch's default generator.
/// @throws Error  for an unknown name (it lists the known ones) or an option that this model does not have
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options = {});

}  // namespace lockstep
