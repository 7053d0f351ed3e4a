#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// What an optimizer's file says of its tensors, under "__metadata__".
struct OptimizerMetadata {
  struct Parameter {
    std::vector<std::int64_t> sizes;  ///< of the whole parameter
    std::int64_t begin = 0;           ///< elements [begin, end) of the flattened parameter are in this file
    std::int64_t end = 0;
    std::int64_t step = 0;
    std::vector<std::string> kinds;  ///< "exp_avg", ...: tensor "PARAMETER.KIND" holds one
  };
  std::map<std::string, Parameter> parameters;
  std::vector<std::map<std::string, double>> groups;  ///< options by name
};

/// @param metadata  "state" and "groups" as JSON texts
/// @param path      named in errors
/// @throws Error  if a text is missing, is not such JSON, or contradicts itself
OptimizerMetadata parse_optimizer_metadata(const std::map<std::string, std::string>& metadata, const std::string& path);

/// The texts that `parse_optimizer_metadata` reads.
std::map<std::string, std::string> optimizer_metadata_texts(const OptimizerMetadata& metadata);

}  // namespace lockstep
