// Models of images and tables, and their folders that `lockstep train` writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/models/registry.h"

namespace lockstep {

/// A model of images or tables, and the names of its classes.
struct ArrayModel {
  std::shared_ptr<Model> model;
  std::vector<std::string> labels;
  std::string notice{};  ///< about new weights; empty: no notice
};

/// The `config.json` of such a model: its kind ("convnet", "mlp"), its sizes and its labels.
std::string array_config_json(const ArrayModel& model);

/// The model of a folder that a training wrote.
/// @param options  `num_labels` and `features` above 0 are the data's numbers, which the model must match
/// @param ignore_mismatched_sizes  weights of other shapes are initialized randomly instead
/// @throws Error  if the folder does not contain such a model, or its model is for other data
ArrayModel load_array_model(const std::string& folder, ModelOptions options = {}, bool ignore_mismatched_sizes = false);

/// A model by name, with random weights, for these classes; or the model of a folder, as above.
/// @param labels  the names of the classes that the data has; empty with a folder: the model's own
ArrayModel load_or_make_array_model(const std::string& folder_or_name, ModelOptions options,
                                    const std::vector<std::string>& labels, bool ignore_mismatched_sizes);

/// "0", "1", ...: names for classes without names.
std::vector<std::string> numbers_as_names(std::int64_t count);

}  // namespace lockstep
