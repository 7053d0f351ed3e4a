#pragma once

// The metrics that `lockstep train` and `lockstep evaluate` leave in a folder.
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"

namespace lockstep {

inline double eval_result(const std::string& folder, const std::string& name) {
  return nlohmann::json::parse(read_file(folder + "/eval_results.json")).at(name).get<double>();
}

}  // namespace lockstep
