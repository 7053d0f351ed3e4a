#include "lockstep/safetensors/weight_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"

namespace lockstep {
namespace {

// A name that contains a path could point anywhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

WeightIndex parse_weight_index(const std::string& text, const std::string& path) {
  const auto index = parse_json_object(text, path);
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    throw Error("the index has no weight_map", path, "save the model again");
  }
  WeightIndex file_of;
  for (const auto& [name, value] : map->items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : "";
    if (!is_plain_name(file)) {
      throw Error(fmt::format("weight_map gives \"{}\" no file name beside the index", name), path,
                  "save the model again");
    }
    file_of.emplace(name, file);
  }
  return file_of;
}

}  // namespace lockstep
