#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// The training arguments of a YAML file, as the JSON object that says the same. `no`, `on` and the like are switches,
/// but texts for an argument that is a text (`save_strategy: no`); 1e-3 is a number, with or without a point.
/// @param path  of `text`, for errors
/// @param is_text  whether the argument of that name is a text, or a list of texts
/// @throws UsageError  with file and line: if this is not a YAML mapping, a key occurs twice, or it is nested too
/// deeply
nlohmann::json yaml_arguments(const std::string& text, const std::string& path,
                              const std::function<bool(const std::string& name)>& is_text);

}  // namespace lockstep
