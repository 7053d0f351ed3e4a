#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// The name of a field of one text of several in a sample: "input_ids_1".
inline std::string numbered_field(const char* name, std::size_t text) { return name + ("_" + std::to_string(text)); }

}  // namespace lockstep
