#include "tools/models/array_model.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/models/sequence_head.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/model_memory.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {
namespace {

constexpr const char* kConvNet = "convnet";
constexpr const char* kMlp = "mlp";

// The sizes of a folder's model, in the form that `make_model` takes.
ModelOptions sizes_in(const ConfigFile& config, const std::string& kind) {
  ModelOptions options;
  options.num_labels = static_cast<std::int64_t>(config.labels().size());
  if (kind == kConvNet) {
    options.channels = config.integer({"num_channels"}, 1, 1, ConfigFile::kMaxSize);
    options.side = config.integer({"image_size"}, 28, 4, ConfigFile::kMaxSize);
    return options;
  }
  options.features = config.integer({"num_features"}, 0, 1, ConfigFile::kMaxSize);
  const char* const fix = "give a list of the layers' widths";
  const auto widths = config.json().value("hidden_sizes", nlohmann::json::array());
  if (!widths.is_array()) config.refuse("hidden_sizes", "is not a list", fix);
  double parameters = 0;
  double last = static_cast<double>(options.features);
  for (const auto& width : widths) {
    if (!width.is_number_integer()) config.refuse("hidden_sizes", "contains a value that is not a whole number", fix);
    if (width < 1 || width > ConfigFile::kMaxSize) {
      config.refuse("hidden_sizes", "contains a width out of range",
                    fmt::format("give widths from 1 to {}", ConfigFile::kMaxSize));
    }
    options.hidden.push_back(width.get<std::int64_t>());
    parameters += last * static_cast<double>(options.hidden.back());
    last = static_cast<double>(options.hidden.back());
  }
  parameters += last * static_cast<double>(options.num_labels);
  require_memory_for({parameters, "num_features, hidden_sizes, id2label"}, config.path());
  return options;
}

std::string kind_in(const ConfigFile& config) {
  std::string kind = config.text({"model_type"}, "");
  if (kind == kConvNet || kind == kMlp) return kind;
  config.refuse("model_type", "is \"" + kind + "\", which takes neither images nor tables",
                "give the folder of a convnet or mlp that lockstep train wrote");
}

// Throws if the data's size differs from the model's, and the user did not ask for that.
void check_size(const char* what, std::int64_t of_model, std::int64_t of_data, bool may_differ,
                const std::string& folder) {
  if (of_data == 0 || of_data == of_model || may_differ) return;
  throw Error(fmt::format("the model has {} {}, but the data has {}", of_model, what, of_data), folder,
              "give data of the form that the model was trained on, or --ignore-mismatched-sizes: layers that do not "
              "fit are then newly initialised");
}

}  // namespace

std::vector<std::string> numbers_as_names(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string array_config_json(const ArrayModel& model) {
  nlohmann::json json{{"architectures", {model.model->name()}}};
  if (const auto* convnet = dynamic_cast<const ConvNetImpl*>(model.model.get())) {
    json["model_type"] = kConvNet;
    json["num_channels"] = convnet->options().channels;
    json["image_size"] = convnet->options().side;
  } else if (const auto* mlp = dynamic_cast<const MlpImpl*>(model.model.get())) {
    json["model_type"] = kMlp;
    json["num_features"] = mlp->options().features;
    json["hidden_sizes"] = mlp->options().hidden;
  }
  SequenceHead head;
  head.labels = model.labels;
  write_sequence_head(head, json);
  return json.dump(2) + "\n";
}

ArrayModel load_array_model(const std::string& folder, ModelOptions options, bool ignore_mismatched_sizes) {
  const ConfigFile config(folder);
  const std::string kind = kind_in(config);
  ModelOptions sizes = sizes_in(config, kind);
  check_size("classes", sizes.num_labels, options.num_labels, ignore_mismatched_sizes, folder);
  check_size("features", sizes.features, options.features, ignore_mismatched_sizes, folder);
  ArrayModel loaded;
  loaded.labels = config.labels();
  if (options.num_labels > 0 && options.num_labels != sizes.num_labels) {
    loaded.labels = numbers_as_names(options.num_labels);
    sizes.num_labels = options.num_labels;
  }
  if (options.features > 0) sizes.features = options.features;
  loaded.model = make_model(kind, sizes);
  WeightRules rules;
  rules.architecture = loaded.model->name();
  LoadOptions how;
  how.ignore_mismatched_sizes = ignore_mismatched_sizes;
  const LoadReport report = load_weights(*loaded.model, rules, folder, how);
  if (!report.missing.empty()) {
    throw Error(fmt::format("the folder has no weight {}", report.missing.front()), folder,
                "give the folder of a model that lockstep train wrote");
  }
  loaded.notice = report.text();
  return loaded;
}

ArrayModel load_or_make_array_model(const std::string& folder_or_name, ModelOptions options,
                                    const std::vector<std::string>& labels, bool ignore_mismatched_sizes) {
  options.num_labels = static_cast<std::int64_t>(labels.size());
  if (!std::filesystem::is_directory(folder_or_name)) return {make_model(folder_or_name, options), labels};
  ArrayModel loaded = load_array_model(folder_or_name, options, ignore_mismatched_sizes);
  if (!labels.empty()) loaded.labels = labels;
  return loaded;
}

}  // namespace lockstep
