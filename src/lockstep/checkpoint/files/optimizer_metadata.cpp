#include "lockstep/checkpoint/files/optimizer_metadata.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/checkpoint/files/json_number.h"
#include "lockstep/checkpoint/files/part_metadata.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr const char* kFix = "resume from another checkpoint";

Json json_in(const std::map<std::string, std::string>& metadata, const char* key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    throw Error(fmt::format("{} is not an optimizer state: its metadata lacks \"{}\"", path, key), path, kFix);
  }
  refuse_deep_json(found->second, path);
  return Json::parse(found->second);
}

std::int64_t number_of_state(const Json& value, const std::string& path) {
  if (const auto number = integer_in(value)) return *number;
  throw Error(fmt::format("{} is not an optimizer state: a whole number is missing in its metadata", path), path, kFix);
}

void check(const std::string& name, const OptimizerMetadata::Parameter& parameter, const std::string& path) {
  const PartPlace place{parameter.sizes, parameter.begin, parameter.end};
  if (parameter.step >= 0 && place.is_possible()) return;
  throw Error(fmt::format("the state of {} contradicts itself", name), path, kFix);
}

std::map<std::string, OptimizerMetadata::Parameter> parameters_in(const Json& all, const std::string& path) {
  std::map<std::string, OptimizerMetadata::Parameter> parameters;
  for (const auto& [name, entry] : all.items()) {
    OptimizerMetadata::Parameter parameter;
    for (const Json& size : entry.at("sizes")) parameter.sizes.push_back(number_of_state(size, path));
    parameter.begin = number_of_state(entry.at("begin"), path);
    parameter.end = number_of_state(entry.at("end"), path);
    parameter.step = number_of_state(entry.at("step"), path);
    parameter.kinds = entry.at("kinds").get<std::vector<std::string>>();
    check(name, parameter, path);
    parameters.emplace(name, std::move(parameter));
  }
  return parameters;
}

std::vector<std::map<std::string, double>> groups_in(const Json& list, const std::string& path) {
  std::vector<std::map<std::string, double>> groups;
  for (const Json& object : list) {
    auto& group = groups.emplace_back();
    for (const auto& [name, value] : object.items()) {
      const auto number = number_in(value);
      if (!number) throw Error(fmt::format("option \"{}\" is not a number", name), path, kFix);
      group[name] = *number;
    }
  }
  return groups;
}

}  // namespace

OptimizerMetadata parse_optimizer_metadata(const std::map<std::string, std::string>& metadata,
                                           const std::string& path) {
  try {
    return {parameters_in(json_in(metadata, "state", path), path), groups_in(json_in(metadata, "groups", path), path)};
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{} is not an optimizer state: {}", path, error.what()), path, kFix);
  }
}

std::map<std::string, std::string> optimizer_metadata_texts(const OptimizerMetadata& metadata) {
  Json parameters = Json::object();
  for (const auto& [name, parameter] : metadata.parameters) {
    parameters[name] = {{"sizes", parameter.sizes},
                        {"begin", parameter.begin},
                        {"end", parameter.end},
                        {"step", parameter.step},
                        {"kinds", parameter.kinds}};
  }
  Json groups = Json::array();
  for (const auto& options : metadata.groups) {
    Json object = Json::object();
    for (const auto& [name, value] : options) object[name] = json_of_number(value);
    groups.push_back(std::move(object));
  }
  return {{"state", parameters.dump()}, {"groups", groups.dump()}};
}

}  // namespace lockstep
