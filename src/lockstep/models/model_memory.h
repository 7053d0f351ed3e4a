#pragma once

#include <string>

namespace lockstep {

/// About how many parameters, in fp32, a model of some sizes has.
struct ParameterCount {
  double parameters = 0;
  std::string fields;  ///< of config.json that determine it, for errors
};

/// Refuses a model that is larger than the host's memory and swap together, before anything is allocated. Each size in
/// a `config.json` may be sensible while their product is not.
/// @param path  the file that holds the sizes
/// @throws Error  naming file, fields and both sizes
void require_memory_for(const ParameterCount& count, const std::string& path);

}  // namespace lockstep
