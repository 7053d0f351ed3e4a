#pragma once

#include <algorithm>
#include <string>

namespace lockstep {

/// A name as a flag is written: "num_gpus" becomes "num-gpus".
inline std::string with_hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// A flag's name as an argument is named: "num-gpus" becomes "num_gpus".
inline std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace lockstep
