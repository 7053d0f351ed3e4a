#include "tools/lockstep/array_model.h"

#include <torch/utils.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/models/pretrained.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

std::shared_ptr<Model> array_model(const std::string& folder_or_name, const std::string& usual,
                                   const ModelOptions& options) {
  if (!std::filesystem::is_directory(folder_or_name)) return make_model(folder_or_name, options);
  auto model = make_model(usual, options);
  const SafetensorsFile file(folder_or_name + "/model.safetensors");
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state_of(*model)) {
    const at::Tensor saved = file.tensor(name);
    if (saved.sizes() != tensor.sizes()) {
      throw Error("the weight " + name + " has another shape than " + usual + "'s for this data", file.path(),
                  "give the folder of a model that was trained on data of this form");
    }
    at::Tensor(tensor).copy_(saved);
  }
  return model;
}

}  // namespace lockstep
