#include "lockstep/sentence/sentence_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/detail/models/config_file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostLayoutBytes = 1 << 20;
constexpr const char* kPoolingFolder = "1_Pooling";
constexpr const char* kModulesFile = "modules.json";
constexpr const char* kLengthFile = "sentence_bert_config.json";
constexpr const char* kTypePrefix = "sentence_transformers.models.";
constexpr const char* kOldPoolingKey = "pooling_mode_";

struct PoolingName {
  Pooling pooling;
  const char* name;  ///< since sentence-transformers 5
  const char* old;   ///< behind kOldPoolingKey
};
constexpr PoolingName kPoolings[] = {
    {Pooling::Mean, "mean", "mean_tokens"}, {Pooling::Cls, "cls", "cls_token"}, {Pooling::Max, "max", "max_tokens"}};

[[noreturn]] void refuse_pooling(const std::string& name, const std::string& path) {
  throw Error("pooling by " + name + " is not supported", path, "use a model that pools by mean, cls or max");
}

Pooling pooling_named(const std::string& name, const std::string& path) {
  for (const PoolingName& known : kPoolings) {
    if (name == known.name || name == known.old) return known.pooling;
  }
  refuse_pooling("\"" + name + "\"", path);
}

// A name, a list of one name, or a key for each way, of which one is true.
Pooling read_pooling(const std::string& path) {
  const auto json = read_json_object(path, kMostLayoutBytes);
  if (json->contains("pooling_mode")) {
    nlohmann::json mode = json->at("pooling_mode");
    if (mode.is_array() && mode.size() == 1) mode = mode[0];
    if (!mode.is_string()) refuse_pooling(mode.dump(), path + ", field \"pooling_mode\"");
    return pooling_named(mode.get<std::string>(), path + ", field \"pooling_mode\"");
  }
  std::string found;
  for (const auto& [key, value] : json->items()) {
    if (key.rfind(kOldPoolingKey, 0) != 0 || value != true) continue;
    const std::string name = key.substr(std::string(kOldPoolingKey).size());
    if (!found.empty()) refuse_pooling(fmt::format("{} and {} together", found, name), path);
    found = name;
  }
  return found.empty() ? Pooling::Mean : pooling_named(found, path);
}

// The modules of the file: the last part of each one's type, and its folder.
std::map<std::string, std::string> read_modules(const std::string& path) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(problem, path, "give the folder of a model that sentence-transformers saved");
  };
  const std::string text = read_regular_file(path, kMostLayoutBytes);
  refuse_deep_json(text, path);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) refuse("the file is not a JSON list of modules");
  std::map<std::string, std::string> modules;
  for (const auto& module : json) {
    const bool has_names = module.is_object() && module.contains("type") && module["type"].is_string() &&
                           module.contains("path") && module["path"].is_string();
    if (!has_names) refuse("a module has no \"type\" or no \"path\"");
    const auto type = module["type"].get<std::string>();
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name != "Transformer" && name != "Pooling" && name != "Normalize") {
      throw Error("the model has the module " + type + ", which is not supported", path,
                  "use a model that consists only of Transformer, Pooling and Normalize");
    }
    const auto folder = module["path"].get<std::string>();
    const std::filesystem::path part(folder);
    if (part.is_absolute() || folder.find("..") != std::string::npos) refuse("a module's path leaves the folder");
    if (name == "Transformer" && !folder.empty()) {
      throw Error("the encoder is in the folder \"" + folder + "\" of the model", path,
                  "copy its files beside modules.json, and make its \"path\" empty");
    }
    if (!modules.emplace(name, folder).second) refuse("two modules are a " + name);
  }
  return modules;
}

}  // namespace

bool is_sentence_folder(const std::string& folder) {
  return std::filesystem::exists(folder + "/" + std::string(kModulesFile));
}

SentenceLayout read_sentence_layout(const std::string& folder) {
  SentenceLayout layout;
  if (!is_sentence_folder(folder)) return layout;
  const auto modules = read_modules(folder + "/" + std::string(kModulesFile));
  const auto pooling = modules.find("Pooling");
  if (pooling == modules.end()) {
    throw Error("the model has no module that pools its tokens", folder + "/" + std::string(kModulesFile),
                "give the folder of a model whose modules.json names a Pooling");
  }
  layout.pooling = read_pooling(folder + "/" + pooling->second + "/config.json");
  layout.normalizes = modules.count("Normalize") != 0;
  const std::string lengths = folder + "/" + std::string(kLengthFile);
  if (!std::filesystem::exists(lengths)) return layout;
  const ConfigFile file(lengths);
  file.require("do_lower_case", {"false"});
  if (file.has("max_seq_length")) {
    layout.max_seq_length = file.integer({"max_seq_length"}, 0, 1, ConfigFile::kMaxSize);
  }
  return layout;
}

std::map<std::string, std::string> sentence_layout_files(const SentenceLayout& layout, std::int64_t hidden_size) {
  std::map<std::string, std::string> files;
  auto modules = nlohmann::ordered_json::array();
  const auto add = [&](const char* type, const std::string& folder) {
    const std::size_t index = modules.size();
    modules.push_back(
        {{"idx", index}, {"name", std::to_string(index)}, {"path", folder}, {"type", std::string(kTypePrefix) + type}});
  };
  add("Transformer", "");
  add("Pooling", kPoolingFolder);
  if (layout.normalizes) add("Normalize", "2_Normalize");
  files[kModulesFile] = modules.dump(2) + "\n";
  nlohmann::ordered_json pooling{{"word_embedding_dimension", hidden_size}};
  for (const PoolingName& known : kPoolings) {
    pooling[std::string(kOldPoolingKey) + known.old] = known.pooling == layout.pooling;  // all versions read this form
  }
  files[std::string(kPoolingFolder) + "/config.json"] = pooling.dump(2) + "\n";
  if (layout.max_seq_length) {
    const nlohmann::ordered_json lengths{{"max_seq_length", *layout.max_seq_length}, {"do_lower_case", false}};
    files[kLengthFile] = lengths.dump(2) + "\n";
  }
  return files;
}

}  // namespace lockstep
