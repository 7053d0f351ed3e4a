#include "tools/lockstep/flags/model_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/sentence/sentence_layout.h"
#include "lockstep/models/registry.h"

namespace lockstep {

std::map<std::string, std::string> generation_files(const std::string& folder) {
  constexpr std::uint64_t kMostGenerationBytes = 1 << 20;
  const std::string path = folder + "/" + kGenerationFile;
  if (!std::filesystem::exists(path)) return {};
  return {{kGenerationFile, read_regular_file(path, kMostGenerationBytes)}};
}

void refuse_other_models(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/config.json")) return;
  if (!ConfigFile(folder).text({"model_type"}, "").empty()) require_known_model(folder);
}

void refuse_other_head(const std::string& architecture, const std::string& path) {
  for (const auto& [part, does] : {std::pair("ForTokenClassification", "labels each token of a text"),
                                   {"ForQuestionAnswering", "finds answers in texts"},
                                   {"ForMultipleChoice", "chooses among texts"},
                                   {"ForNextSentencePrediction", "says whether a text follows another"},
                                   {"DoubleHeads", "chooses among texts"},
                                   {"ForConditionalGeneration", "writes a text for a text"}}) {
    if (architecture.find(part) == std::string::npos) continue;
    throw Error(fmt::format("the model is a {}, which {}: a task that Lockstep does not support", architecture, does),
                path + ", field \"architectures\"",
                "give the folder of a classifier of texts or of a language model; lockstep train makes one from this "
                "model's layers");
  }
}

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
  refuse_other_head(name, path);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has("LMHead") || has("MaskedLM") || has("ForCausalLM") ? "language-modeling" : "text-classification";
}

}  // namespace lockstep
