#include "lockstep/detail/models/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 16 << 20;
constexpr std::int64_t kMaxLabels = 1'000'000;

std::string config_path(const std::string& path) {
  return std::filesystem::is_directory(path) ? path + "/config.json" : path;
}

std::string shown_json(const nlohmann::json& value) {
  constexpr std::size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "…";
}

}  // namespace

ConfigFile::ConfigFile(const std::string& path) : path_(config_path(path)) {
  if (!std::filesystem::exists(path_)) {
    throw Error("there is no " + path_, path_, "give a folder that holds config.json and model.safetensors");
  }
  json_ = read_json_object(path_, kMaxConfigBytes);
}

bool ConfigFile::has(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const nlohmann::json* ConfigFile::find(const Keys& keys, std::string& found) const {
  for (const std::string& key : keys) {
    if (!has(key)) continue;
    found = key;
    return &json_->at(key);
  }
  return nullptr;
}

std::int64_t ConfigFile::integer(const Keys& keys, std::int64_t fallback, std::int64_t min, std::int64_t max) const {
  std::string key;
  const nlohmann::json* value = find(keys, key);
  if (value == nullptr) return fallback;
  const std::string fix = fmt::format("give a whole number from {} to {}", min, max);
  if (!value->is_number_integer()) refuse(key, fmt::format("is {}, not a whole number", shown_json(*value)), fix);
  const bool is_huge = value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (is_huge || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max) {
    refuse(key, fmt::format("is {}, which is out of range", shown_json(*value)), fix);
  }
  return value->get<std::int64_t>();
}

double ConfigFile::number(const Keys& keys, double fallback, double min, double max) const {
  std::string key;
  const nlohmann::json* value = find(keys, key);
  if (value == nullptr) return fallback;
  const std::string fix = fmt::format("give a number from {} to {}", min, max);
  if (!value->is_number()) refuse(key, fmt::format("is {}, not a number", shown_json(*value)), fix);
  const double number = value->get<double>();
  if (!(number >= min && number <= max)) refuse(key, fmt::format("is {}, which is out of range", number), fix);
  return number;
}

bool ConfigFile::boolean(const Keys& keys, bool fallback) const {
  std::string key;
  const nlohmann::json* value = find(keys, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean())
    refuse(key, fmt::format("is {}, not true or false", shown_json(*value)), "give true or false");
  return value->get<bool>();
}

std::string ConfigFile::text(const Keys& keys, const std::string& fallback) const {
  std::string key;
  const nlohmann::json* value = find(keys, key);
  if (value == nullptr) return fallback;
  if (!value->is_string())
    refuse(key, fmt::format("is {}, not a string", shown_json(*value)), "give a string in quotes");
  return value->get<std::string>();
}

std::vector<std::string> ConfigFile::labels() const {
  if (!has("id2label")) {
    std::vector<std::string> names(static_cast<std::size_t>(integer({"num_labels", "_num_labels"}, 0, 0, kMaxLabels)));
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("LABEL_{}", i);
    return names;
  }
  const nlohmann::json& map = json_->at("id2label");
  if (!map.is_object()) refuse("id2label", "is not an object", "map ids, as strings, to names");
  std::vector<std::string> names(map.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = map.find(std::to_string(i));
    if (found == map.end()) {
      refuse("id2label", fmt::format("has {} names, but none for id {}", names.size(), i),
             "number the labels from 0 on");
    }
    if (!found->is_string()) refuse("id2label", fmt::format("{} is not a string", i), "give every label a name");
    names[i] = found->get<std::string>();
  }
  return names;
}

void ConfigFile::require(const std::string& key, const std::vector<std::string>& supported) const {
  if (!has(key)) return;
  for (const std::string& text : supported) {
    if (json_->at(key) == nlohmann::json::parse(text)) return;
  }
  refuse(key, fmt::format("is {}, which is not supported", shown_json(json_->at(key))),
         fmt::format("only models with {} = {} can be loaded", key, fmt::join(supported, " or ")));
}

void ConfigFile::refuse(const std::string& key, const std::string& problem, const std::string& fix) const {
  throw Error(fmt::format("\"{}\" {}", key, problem), path_ + ", field \"" + key + "\"", fix);
}

Activation read_activation(const ConfigFile& file, const std::string& key, Activation fallback) {
  if (!file.has(key)) return fallback;
  const std::string name = file.text({key}, "");
  const auto activation = parse_activation(name);
  if (!activation) file.refuse(key, "is \"" + name + "\", which is not supported", "known are: " + known_activations());
  return *activation;
}

}  // namespace lockstep
