#pragma once

#include <string>

namespace lockstep {

/// Refuses JSON in which an object has a key twice: parsers take one of the two values in silence, and which one
/// differs. Text that is no JSON is left to the parser. @param path  named in errors
/// @throws UsageError  with file, line and key
void refuse_duplicate_keys(const std::string& text, const std::string& path);

}  // namespace lockstep
