#pragma once

#include <string>

namespace lockstep {

/// Refuses a model that is larger than the host's memory and swap together, before anything is allocated. Each size in
/// a `config.json` may be sensible while their product is not.
/// @param parameters  approximate number of parameters, in fp32
/// @param path        the file that holds the sizes
/// @param fields      the fields that make the product, for the error
/// @throws Error  naming file, fields and both sizes
void require_memory_for(double parameters, const std::string& path, const std::string& fields);

}  // namespace lockstep
