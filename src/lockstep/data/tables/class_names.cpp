#include "lockstep/data/tables/class_names.h"

#include <nlohmann/json.hpp>

namespace lockstep {

std::vector<std::string> class_names(const std::string& description, const std::string& column) {
  nlohmann::json value = nlohmann::json::parse(description, nullptr, false);
  for (const std::string& key : {std::string("info"), std::string("features"), column}) {
    if (!value.is_object() || !value.contains(key)) return {};
    nlohmann::json inner = value[key];
    value = std::move(inner);
  }
  if (!value.is_object() || value.value("_type", nlohmann::json()) != "ClassLabel" || !value.contains("names")) {
    return {};
  }
  std::vector<std::string> names;
  for (const nlohmann::json& name : value["names"]) {
    if (!name.is_string()) return {};
    names.push_back(name);
  }
  return names;
}

}  // namespace lockstep
