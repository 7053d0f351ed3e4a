#pragma once

#include <string>

namespace lockstep {

/// Refuses a model that is larger than the host's memory and swap together, before anything is allocated: each size of
/// a `config.json` may be sensible, and their product not.
/// @param parameters  about how many it has, in fp32
/// @param path        the file that says so
/// @param fields      that make the product, for the error
/// @throws Error  naming file, fields and both sizes
void require_memory_for(double parameters, const std::string& path, const std::string& fields);

}  // namespace lockstep
