#include "tools/lockstep/flags/model_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/models/sentence_layout.h"

namespace lockstep {

std::string task_of_folder(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!std::filesystem::is_directory(folder)) {
    throw UsageError(
        "there is no folder " + folder, "--model",
        download_hint(folder) + "give the folder of a model that lockstep train or Hugging Face's library saved");
  }
  if (!std::filesystem::exists(path)) {
    throw UsageError("there is no config.json, so the folder does not say what its model is for", folder,
                     "give the folder of a model that lockstep train or Hugging Face's library saved");
  }
  if (is_sentence_folder(folder)) return "sentence-embedding";
  constexpr std::uint64_t kLargestConfigBytes = 16 << 20;
  const auto config = read_json_object(path, kLargestConfigBytes);
  const auto type = config->value("model_type", nlohmann::json());
  if (type == "convnet") return "image-classification";
  if (type == "mlp") return "tabular-classification";
  const auto names = config->value("architectures", nlohmann::json::array());
  if (!names.is_array()) {
    throw Error(fmt::format("\"architectures\" is a {}, not a list", names.type_name()),
                path + ", field \"architectures\"", "give a list with the name of the model's class");
  }
  const std::string name = names.empty() || !names[0].is_string() ? "" : names[0].get<std::string>();
  return name.find("LMHead") != std::string::npos || name.find("MaskedLM") != std::string::npos ? "language-modeling"
                                                                                                : "text-classification";
}

}  // namespace lockstep
