#pragma once

#include <string>

#include "lockstep/hub/hub_model.h"

namespace lockstep {

/// In which way the file at `path` is not `file`: its size, or what its content adds up to. Empty if it is the same.
/// Files for which the Hub's cache has no sum are compared by size alone.
/// @throws Error  if it cannot be read
std::string difference_from(const HubFile& file, const std::string& path);

}  // namespace lockstep
