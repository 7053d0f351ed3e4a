#include "lockstep/checkpoint/files/optimizer_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

std::string tensor_name(const std::string& parameter, const std::string& kind) { return parameter + "." + kind; }

Json json_of_groups(const std::vector<std::map<std::string, double>>& groups) {
  Json list = Json::array();
  for (const auto& group : groups) {
    Json object = Json::object();
    for (const auto& [name, value] : group) object[name] = json_of_number(value);
    list.push_back(std::move(object));
  }
  return list;
}

std::vector<std::map<std::string, double>> groups_of(const Json& list, const std::string& path) {
  std::vector<std::map<std::string, double>> groups;
  for (const Json& object : list) {
    auto& group = groups.emplace_back();
    for (const auto& [name, value] : object.items()) {
      const auto number = number_in(value);
      if (!number) {
        throw Error(fmt::format("option \"{}\" is not a number", name), path, "resume from another checkpoint");
      }
      group[name] = *number;
    }
  }
  return groups;
}

void check_state(const std::string& name, const ParameterState& state, const std::string& path) {
  std::int64_t numel = 1;
  bool fits = true;
  for (const std::int64_t size : state.sizes) fits = fits && size >= 0 && !__builtin_mul_overflow(numel, size, &numel);
  fits = fits && state.step >= 0 && state.begin >= 0 && state.begin <= state.end && state.end <= numel;
  for (const auto& item : state.tensors) {
    fits = fits && (state.is_whole() ? item.second.sizes().vec() == state.sizes
                                     : item.second.dim() == 1 && item.second.numel() == state.end - state.begin);
  }
  if (!fits)
    throw Error(fmt::format("the state of {} contradicts itself", name), path, "resume from another checkpoint");
}

}  // namespace

OptimizerTensors optimizer_tensors(const OptimizerContent& content) {
  OptimizerTensors result;
  Json parameters = Json::object();
  for (const auto& [name, state] : content.state) {
    Json kinds = Json::array();
    for (const auto& [kind, tensor] : state.tensors) {
      kinds.push_back(kind);
      result.tensors.emplace_back(tensor_name(name, kind), tensor);
    }
    parameters[name] = {
        {"sizes", state.sizes}, {"begin", state.begin}, {"end", state.end}, {"step", state.step}, {"kinds", kinds}};
  }
  result.metadata = {{"format", "pt"}, {"state", parameters.dump()}, {"groups", json_of_groups(content.groups).dump()}};
  return result;
}

OptimizerContent read_optimizer_file(const SafetensorsFile& file) {
  OptimizerContent content;
  try {
    const Json parameters = Json::parse(file.metadata().at("state"));
    for (const auto& [name, entry] : parameters.items()) {
      ParameterState state;
      state.sizes = entry.at("sizes").get<std::vector<std::int64_t>>();
      state.begin = entry.at("begin").get<std::int64_t>();
      state.end = entry.at("end").get<std::int64_t>();
      state.step = entry.at("step").get<std::int64_t>();
      for (const Json& kind : entry.at("kinds")) {
        const auto text = kind.get<std::string>();
        state.tensors[text] = file.tensor(tensor_name(name, text));
      }
      check_state(name, state, file.path());
      content.state.emplace(name, std::move(state));
    }
    content.groups = groups_of(Json::parse(file.metadata().at("groups")), file.path());
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{} is no optimizer state: {}", file.path(), error.what()), file.path(),
                "resume from another checkpoint");
  } catch (const std::out_of_range&) {
    throw Error(fmt::format("{} is no optimizer state: its metadata lacks \"state\" or \"groups\"", file.path()),
                file.path(), "resume from another checkpoint");
  }
  return content;
}

OptimizerContent join_optimizer_files(const std::vector<OptimizerContent>& parts) {
  OptimizerContent joined;
  std::vector<NamedState> pieces;
  for (const OptimizerContent& part : parts) {
    if (joined.groups.empty()) joined.groups = part.groups;
    NamedState& rest = pieces.emplace_back();
    for (const auto& [name, state] : part.state) {
      if (state.is_whole()) {
        joined.state.emplace(name, state);
      } else if (state.begin != state.end) {
        rest.emplace(name, state);
      }
    }
  }
  for (auto& [name, state] : merge_states(pieces)) {
    if (!joined.state.emplace(name, std::move(state)).second) {
      throw Error(fmt::format("optimizer state of {} is there whole and in parts", name), "join_optimizer_files",
                  "resume from another checkpoint");
    }
  }
  return joined;
}

}  // namespace lockstep
